//! Stands in for the worker's own `files::fail`, which knows HTTP and the kernel.

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    InvalidArgument,
    TooMuch,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Fail(Kind, String);

pub(crate) type Outcome<T> = Result<T, Fail>;

impl Fail {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(kind, message.into())
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::InvalidArgument, message)
    }
}
