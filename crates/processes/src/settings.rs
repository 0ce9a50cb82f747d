//! Numbers that can be set, of the models and of the machine: each with its key, range, default and source in one place. It
//! must not know what they mean.

/// A structure of numbers that users set by the names of its fields, with its table.
macro_rules! numbers {
    (
        $(#[$about_all:meta])*
        $name:ident, $what:literal {
            $($key:ident = $default:literal, $low:literal..=$high:literal, $about:literal, $source:literal;)*
        }
    ) => {
        $(#[$about_all])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $(#[doc = $about] pub $key: u64,)*
        }

        impl $name {
            /// What can be set.
            pub const TABLE: &[lode_policy::SettingInfo] = &[
                $(lode_policy::SettingInfo::integer(stringify!($key), stringify!($default), $low, $high)
                    .about($about)
                    .source($source),)*
            ];

            /// The values of these settings, which have this table among theirs.
            pub fn of(settings: &lode_policy::Settings) -> $name {
                $name { $($key: settings.integer(stringify!($key)),)* }
            }

            /// # Errors
            /// When a number is outside its range.
            pub(crate) fn check(&self) -> Result<(), crate::RequestsError> {
                let values = [$((stringify!($key), self.$key, $low..=$high),)*];
                values.into_iter().try_for_each(|(key, value, range)| crate::check(key, value, range))
            }
        }

        impl Default for $name {
            fn default() -> $name {
                $name::of(&lode_policy::Settings::new($what, &[$name::TABLE]))
            }
        }
    };
}

pub(crate) use numbers;
