//! Enumerations whose values have names in JSON, CSV and the run store.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Defines an enumeration serialised by name. Error messages use the leading string.
#[macro_export]
macro_rules! named {
    ($what:literal $(#[$attribute:meta])* pub enum $type:ident { $($(#[$doc:meta])* $value:ident = $name:literal,)+ }) => {
        $(#[$attribute])*
        pub enum $type { $($(#[$doc])* $value),+ }

        impl $type {
            /// Every value in report order.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// Name in reports, JSON, CSV and the run store.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$value => $name),+ }
            }
        }

        impl core::fmt::Display for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.name())
            }
        }

        impl core::str::FromStr for $type {
            type Err = alloc::string::String;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                $crate::named::find($what, Self::ALL, Self::name, name)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = alloc::string::String::deserialize(deserializer)?;
                name.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

/// Finds a value by name.
///
/// # Errors
/// A message that lists the valid names.
pub fn find<T: Copy>(
    what: &str,
    all: &[T],
    name_of: fn(T) -> &'static str,
    name: &str,
) -> Result<T, String> {
    all.iter().copied().find(|value| name_of(*value) == name).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|value| name_of(*value)).collect();
        format!("unknown {what} '{}', expected one of {}", name.escape_debug(), names.join(", "))
    })
}
