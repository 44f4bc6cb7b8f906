//! What can be chosen: nothing yet.

pub use namzu_types::config::PassthroughBackendConfig as Config;

/// The backend's name inside its tier.
pub const NAME: &str = "passthrough";
