//! The four content types of Connect.

use crate::Codec;

/// How a body is written and framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContentType {
    /// One message, as is.
    Unary(Codec),
    /// Messages in envelopes.
    Stream(Codec),
}

impl ContentType {
    /// Reads the header, ignoring case and parameters such as `charset`.
    #[must_use]
    pub fn parse(header: &str) -> Option<Self> {
        let essence = header.split(';').next().unwrap_or_default().trim();
        [
            Self::Unary(Codec::Json),
            Self::Unary(Codec::Proto),
            Self::Stream(Codec::Json),
            Self::Stream(Codec::Proto),
        ]
        .into_iter()
        .find(|known| known.as_str().eq_ignore_ascii_case(essence))
    }

    /// The header's value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unary(Codec::Json) => "application/json",
            Self::Unary(Codec::Proto) => "application/proto",
            Self::Stream(Codec::Json) => "application/connect+json",
            Self::Stream(Codec::Proto) => "application/connect+proto",
        }
    }

    /// How its messages are written.
    #[must_use]
    pub const fn codec(self) -> Codec {
        match self {
            Self::Unary(codec) | Self::Stream(codec) => codec,
        }
    }

    /// Whether its messages are in envelopes.
    #[must_use]
    pub const fn is_stream(self) -> bool {
        matches!(self, Self::Stream(_))
    }
}
