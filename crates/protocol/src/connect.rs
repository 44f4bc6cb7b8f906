//! Connect RPC framing: content types, envelopes, error codes and bodies.

mod code;
mod content_type;
mod envelope;
mod error;

pub use self::code::Code;
pub use self::content_type::ContentType;
pub use self::envelope::{
    Envelope, EnvelopeDecoder, EnvelopeError, FLAG_COMPRESSED, FLAG_END, Frame, HEADER_LEN,
};
pub use self::error::{EndStream, ErrorBody};

/// Header with the protocol's version, always [`PROTOCOL_VERSION`].
pub const PROTOCOL_VERSION_HEADER: &str = "connect-protocol-version";
/// The only version.
pub const PROTOCOL_VERSION: &str = "1";
/// Header with the call's deadline in milliseconds.
pub const TIMEOUT_HEADER: &str = "connect-timeout-ms";
/// Header that names the encoding of a stream's envelopes; only `identity` is spoken.
pub const CONTENT_ENCODING_HEADER: &str = "connect-content-encoding";
/// Header with the seconds of silence after which a keep-alive is asked for.
pub const KEEPALIVE_HEADER: &str = "keepalive-ping-interval";
/// Seconds of silence before a keep-alive when [`KEEPALIVE_HEADER`] is absent.
pub const KEEPALIVE_DEFAULT_SECONDS: u64 = 90;

/// Reads [`TIMEOUT_HEADER`]: one to ten decimal digits, milliseconds.
#[must_use]
pub fn parse_timeout_ms(value: &str) -> Option<u64> {
    let fits = (1..=10).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_digit());
    fits.then(|| value.parse().ok()).flatten()
}
