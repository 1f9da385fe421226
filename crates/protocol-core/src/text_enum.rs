//! Enums whose values have a fixed text.

/// Defines an enum with a text for each value.
///
/// `as_str` returns the `= text` behind a variant. `Display` shows the `=> "sentence"` behind it, which
/// may use the variant's fields, or the text if there is no sentence. Either all variants of an enum have
/// a sentence or none has one. With sentences the enum is an `Error`, and without them it has `ALL`.
///
/// A variant in brackets names its value, so that the text can use it. Every enum gets the same derives
/// and is `non_exhaustive`.
macro_rules! text_enum {
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
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$meaning])* $variant $({ $($(#[$member])* $field: $type,)* })? $(($kind))?,)*
        }

        impl $name {
            /// Returns the text of this value, without details, as logs and recordings write it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant { $(0: $held,)? .. } => $text,)*
                }
            }
        }

        $crate::text_enum::display! {
            $name $({ $variant { $($($field,)*)? $(0: $held,)? } $($sentence)? })*
        }
    };
}

/// Implements `Display` for an enum: by the sentences of its variants, or by their texts.
macro_rules! display {
    ($name:ident $({ $variant:ident { $($held:tt)* } $sentence:literal })+) => {
        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self {
                    $(Self::$variant { $($held)* } => write!(f, $sentence),)+
                }
            }
        }

        impl core::error::Error for $name {}
    };
    ($name:ident $({ $variant:ident {} })+) => {
        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}
pub(crate) use {display, text_enum};
