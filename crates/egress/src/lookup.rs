//! Names to addresses.

mod first;
mod system;
mod table;

use std::fmt::Debug;
use std::net::IpAddr;

use async_trait::async_trait;

pub(crate) use self::first::First;
pub(crate) use self::system::System;
pub(crate) use self::table::Static;
use crate::Name;

/// What a name resolved to.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The names it led through (CNAME), for the audit.
    pub chain: Vec<String>,
}

/// Why a name did not resolve.
#[derive(Debug, thiserror::Error)]
#[error("the name did not resolve: {0}")]
pub struct LookupError(pub String);

/// Resolves names. Asked only about names that the policy allows.
#[async_trait]
pub trait Lookup: Debug + Send + Sync {
    /// Resolves an absolute name: no search domains. It is given up after 5 s.
    ///
    /// # Errors
    ///
    /// Says why.
    async fn lookup(&self, name: &Name) -> Result<Answer, LookupError>;
}
