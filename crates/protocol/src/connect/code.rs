//! Connect's error codes and their HTTP statuses.

use std::fmt;
use std::str::FromStr;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal, $status:literal;)*) => {
        /// Why a call failed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The wire form, e.g. `not_found`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The HTTP status of a unary call that fails with it.
            #[must_use]
            pub const fn http_status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }
        }
    };
}

codes! {
    /// The caller gave up.
    Canceled = "canceled", 499;
    /// Nobody knows.
    Unknown = "unknown", 500;
    /// The request makes no sense, whatever the state.
    InvalidArgument = "invalid_argument", 400;
    /// It took longer than it may.
    DeadlineExceeded = "deadline_exceeded", 504;
    /// There is no such thing.
    NotFound = "not_found", 404;
    /// There is such a thing already.
    AlreadyExists = "already_exists", 409;
    /// The caller is known and may not.
    PermissionDenied = "permission_denied", 403;
    /// Something is used up.
    ResourceExhausted = "resource_exhausted", 429;
    /// The state does not allow it.
    FailedPrecondition = "failed_precondition", 400;
    /// It collided with something else.
    Aborted = "aborted", 409;
    /// Outside what there is.
    OutOfRange = "out_of_range", 400;
    /// The call is not known here.
    Unimplemented = "unimplemented", 501;
    /// A fault of the server.
    Internal = "internal", 500;
    /// Not now.
    Unavailable = "unavailable", 503;
    /// Something is lost for good.
    DataLoss = "data_loss", 500;
    /// The caller did not prove who it is.
    Unauthenticated = "unauthenticated", 401;
}

impl Code {
    /// The code of a failed HTTP answer whose body does not give one.
    #[must_use]
    pub const fn from_http_status(status: u16) -> Self {
        match status {
            400 => Self::Internal,
            401 => Self::Unauthenticated,
            403 => Self::PermissionDenied,
            404 => Self::Unimplemented,
            429 | 502..=504 => Self::Unavailable,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Text that names no [`Code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a Connect error code")]
pub struct InvalidCode;

impl FromStr for Code {
    type Err = InvalidCode;

    fn from_str(text: &str) -> Result<Self, InvalidCode> {
        Self::ALL
            .iter()
            .copied()
            .find(|code| code.as_str() == text)
            .ok_or(InvalidCode)
    }
}
