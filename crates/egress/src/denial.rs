//! A refusal, in the words of each door.

use crate::Reason;
use crate::place::Ask;

/// A refusal.
#[derive(Clone, Debug)]
pub(crate) struct Denial {
    pub(crate) reason: Reason,
    /// What was asked for, as far as it could be understood.
    pub(crate) host: Option<Box<str>>,
    pub(crate) port: Option<u16>,
    /// The rule that denied, or that allowed it in principle.
    pub(crate) rule: Option<Box<str>>,
}

impl Denial {
    pub(crate) fn of(ask: &Ask, reason: Reason) -> Self {
        Self {
            reason,
            host: Some(ask.host.to_string().into()),
            port: Some(ask.port),
            rule: None,
        }
    }

    pub(crate) const fn bare(reason: Reason) -> Self {
        Self {
            reason,
            host: None,
            port: None,
            rule: None,
        }
    }
}
