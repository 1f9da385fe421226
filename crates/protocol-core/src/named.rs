//! Enums whose variants have names in text.

/// Defines an enum. Behind each variant stands its text, and perhaps a sentence, which may show what the
/// variant holds; a variant in brackets names that. `as_str` gives the text. `Display` shows the sentences,
/// or with `+ Display` the texts, and then `ALL` has every value.
macro_rules! named {
    (
        $(#[$about:meta])*
        pub enum $name:ident {
            $(
                $(#[$meaning:meta])*
                $variant:ident
                $({ $($(#[$member:meta])* $field:ident: $type:ty,)* })?
                $(($held:ident: $kind:ty))?
                = $text:expr $(=> $sentence:literal)?,
            )*
        }
        $(#[$says:meta])*
        as_str $(+ $display:ident)?
    ) => {
        $(#[$about])*
        pub enum $name {
            $($(#[$meaning])* $variant $({ $($(#[$member])* $field: $type,)* })? $(($kind))?,)*
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

        $crate::named::shown! {
            $name [$($display)?]
            $({ $variant { $($($field,)*)? $(0: $held,)? } $($sentence)? })*
        }
    };
}

/// How the values of such an enum are shown.
macro_rules! shown {
    ($name:ident [] $({ $variant:ident { $($held:tt)* } $sentence:literal })+) => {
        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self {
                    $(Self::$variant { $($held)* } => write!(f, $sentence),)+
                }
            }
        }
    };
    // What is shown by its name is a plain list.
    ($name:ident [Display] $({ $variant:ident {} })*) => {
        impl $name {
            /// Every one, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
    ($name:ident [] $($variants:tt)*) => {};
}
pub(crate) use {named, shown};
