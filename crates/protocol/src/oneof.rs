//! JSON of messages that are one oneof: an object with the one member that is set.

/// Why an object is no oneof.
#[derive(Debug, thiserror::Error)]
#[error("more than one member of `{0}` is set")]
pub(crate) struct Ambiguous(pub(crate) &'static str);

/// Writes the JSON twin of a message whose only field is a oneof, and the conversions that
/// `#[serde(try_from, into)]` on the message needs.
macro_rules! oneof_json {
    ($message:ident as $raw:ident { $slot:ident: $oneof:path {
        $($(#[$meta:meta])* $field:ident: $variant:ident($ty:ty)),* $(,)?
    } }) => {
        #[derive(Default, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        struct $raw {
            $(
                #[serde(skip_serializing_if = "Option::is_none")]
                $(#[$meta])*
                $field: Option<$ty>,
            )*
        }

        impl TryFrom<$raw> for $message {
            type Error = $crate::oneof::Ambiguous;

            fn try_from(raw: $raw) -> Result<Self, Self::Error> {
                use $oneof as Oneof;
                let mut $slot = None;
                $(
                    if let Some(value) = raw.$field
                        && $slot.replace(Oneof::$variant(value)).is_some()
                    {
                        return Err($crate::oneof::Ambiguous(stringify!($slot)));
                    }
                )*
                Ok(Self { $slot })
            }
        }

        impl From<$message> for $raw {
            fn from(message: $message) -> Self {
                use $oneof as Oneof;
                let mut raw = Self::default();
                match message.$slot {
                    $(Some(Oneof::$variant(value)) => raw.$field = Some(value),)*
                    None => {}
                }
                raw
            }
        }
    };
}

pub(crate) use oneof_json;
