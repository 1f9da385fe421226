//! Enums whose variants have names in text.

/// Defines an enum, with the text of each variant behind it, and the method that gives that text. A variant
/// in brackets names what it holds, for its text. `+ Display` shows that text.
macro_rules! named {
    (
        $(#[$about:meta])*
        pub enum $name:ident {
            $($(#[$meaning:meta])* $variant:ident $({ $($field:tt)* })? $(($held:ident: $kind:ty))? = $text:expr,)*
        }
        $(#[$says:meta])*
        as_str $(+ $display:ident)?
    ) => {
        $(#[$about])*
        pub enum $name {
            $($(#[$meaning])* $variant $({ $($field)* })? $(($kind))?,)*
        }

        impl $name {
            $(#[$says])*
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant { $(0: $held,)? .. } => $text,)*
                }
            }
        }

        $(impl core::fmt::$display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.as_str())
            }
        })?
    };
}
pub(crate) use named;
