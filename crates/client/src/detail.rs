//! What a refusal says beside its code and its words, as a typed cause.

use std::error::Error as StdError;
use std::fmt;

use namzu_core::{Error, ErrorCode};
use namzu_protocol::ext;

use crate::Cursor;

/// Travels as a cause of the error.
#[derive(Debug)]
enum Detail {
    /// From where on output can still be replayed.
    Oldest(Cursor),
    /// The start failed for want of its descriptors alone.
    Lane,
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oldest(Cursor {
                stdout,
                stderr,
                pty,
            }) => write!(
                f,
                "what is kept begins at stdout {stdout}, stderr {stderr}, pty {pty}"
            ),
            Self::Lane => f.write_str("the descriptors did not come over the lane"),
        }
    }
}

impl StdError for Detail {}

/// Adds what the metadata of a refusal says, by the name of a header or trailer.
pub(crate) fn with_details<'a>(err: Error, metadata: impl Fn(&str) -> Option<&'a str>) -> Error {
    if err.code() == ErrorCode::CursorExpired
        && let Some(Ok(oldest)) = metadata(ext::OLDEST_HEADER).map(ext::parse_oldest)
    {
        let oldest = Cursor {
            stdout: oldest.stdout,
            stderr: oldest.stderr,
            pty: oldest.pty,
        };
        return err
            .with_source(Detail::Oldest(oldest))
            .with_hint("attach from `oldest_cursor` on");
    }
    if metadata(ext::LANE_HEADER) == Some(ext::LANE_UNKNOWN) {
        return err.with_source(Detail::Lane);
    }
    err
}

fn detail(err: &Error) -> Option<&Detail> {
    let mut next = StdError::source(err);
    while let Some(cause) = next {
        if let Some(detail) = cause.downcast_ref() {
            return Some(detail);
        }
        next = cause.source();
    }
    None
}

/// From where on a command that answered `cursor_expired` can still be attached to.
#[must_use]
pub fn oldest_cursor(err: &Error) -> Option<Cursor> {
    match detail(err)? {
        Detail::Oldest(cursor) => Some(*cursor),
        Detail::Lane => None,
    }
}

/// Whether a start was refused because of the lane alone.
pub(crate) fn is_lane(err: &Error) -> bool {
    matches!(detail(err), Some(Detail::Lane))
}
