//! A page in headless Chromium: who serves it, and hears what it found.

mod chromium;
mod devtools;
mod pages;

pub use chromium::Chromium;
pub use devtools::DevTools;
pub use pages::{Pages, Report};
