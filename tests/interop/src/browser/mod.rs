//! A page in headless Chromium: who serves it, and hears what it found.

mod chromium;
mod pages;

pub use chromium::Chromium;
pub use pages::{Pages, Report};
