//! Reads a configuration from a file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use namzu_core::{Error, ErrorCode, Phase, Result};
use namzu_types::SandboxProviderConfig;

/// The largest configuration that is read.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a provider's configuration from the JSON file at `path`, at most 1 MiB of it.
///
/// # Errors
///
/// `not_found` or `config_invalid`; the latter with everything that is wrong with the document.
pub fn load_config(path: impl AsRef<Path>) -> Result<SandboxProviderConfig> {
    let path = path.as_ref();
    let text = read(path).map_err(|err| {
        let code = match err.kind() {
            std::io::ErrorKind::NotFound => ErrorCode::NotFound,
            _ => ErrorCode::ConfigInvalid,
        };
        Error::new(
            code,
            format!("cannot read the configuration {}", path.display()),
        )
        .with_source(err)
        .during(Phase::Configure)
    })?;
    let config = SandboxProviderConfig::from_json_str(&text).map_err(|err| {
        Error::new(
            ErrorCode::ConfigInvalid,
            format!("invalid configuration {}", path.display()),
        )
        .with_reasons(err.into_reasons())
        .during(Phase::Configure)
    })?;
    Ok(config)
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(MAX_BYTES + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(std::io::Error::other("it is larger than 1 MiB"));
    }
    Ok(text)
}
