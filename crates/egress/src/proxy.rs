//! The boundary as a proxy by itself, for programs that are not in a sandbox of ours.

/// A plain allowlisting proxy. A wall only where something else makes it the only way out.
pub struct EgressProxy {}

/// Sets up an [`EgressProxy`].
#[derive(Debug, Default)]
pub struct EgressProxyBuilder {}
