//! A page in headless Chromium, the server of its files, and the reports that it sends.

mod chromium;
mod devtools;
mod pages;

pub use chromium::Chromium;
pub use devtools::DevTools;
pub use pages::{Pages, Report};
