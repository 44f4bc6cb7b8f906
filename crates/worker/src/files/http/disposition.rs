//! `Content-Disposition: inline; filename=…`.

use std::fmt::Write as _;

/// The header for a name, as bytes; ASCII whatever the name.
pub(super) fn inline(name: &[u8]) -> String {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    if !name.is_empty() && name.iter().all(is_token) {
        return format!("inline; filename={}", String::from_utf8_lossy(name));
    }
    if name.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        let quoted = String::from_utf8_lossy(name)
            .replace('\\', "\\\\")
            .replace('"', "\\\"");
        return format!("inline; filename=\"{quoted}\"");
    }
    let mut encoded = String::from("inline; filename*=utf-8''");
    for byte in name {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            encoded.push(char::from(*byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
