//! Stand-ins in the headers of a request, and what becomes of them.

use std::collections::BTreeMap;

use ::http::{HeaderMap, HeaderValue};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use memchr::memmem;
use namzu_types::Secret;

use super::standin::{PREFIX, Standin};
use crate::Reason;

/// The most that all values together may become, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// Some clients leave the padding out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

type Standins = BTreeMap<Box<str>, Standin>;

/// Puts the secret of the credential that `own` names into the place of its stand-in, also within
/// `Basic` credentials.
///
/// # Errors
///
/// [`Reason::CredentialMisuse`] for any other stand-in; [`Reason::RequestTooLarge`].
pub(super) fn exchange(
    headers: &mut HeaderMap,
    standins: &Standins,
    own: Option<(&str, &Secret)>,
) -> Result<(), Reason> {
    if standins.is_empty() {
        return Ok(());
    }
    let mut left = MAX_BYTES;
    let swap = |name: &str| match own {
        Some((own, secret)) if own == name => Some(secret.expose().as_bytes()),
        _ => None,
    };
    for value in headers.values_mut() {
        if let Some(bytes) = in_value(value.as_bytes(), standins, &swap)? {
            left = left
                .checked_sub(bytes.len())
                .ok_or(Reason::RequestTooLarge)?;
            // A secret was looked at before; only Basic can make a value that is none, and it is letters.
            *value = HeaderValue::from_bytes(&bytes).map_err(|_| Reason::CredentialMissing)?;
            value.set_sensitive(true);
        }
    }
    Ok(())
}

/// Looks for stand-ins of other credentials than `own`.
///
/// # Errors
///
/// [`Reason::CredentialMisuse`].
pub(super) fn refuse_others(
    headers: &HeaderMap,
    standins: &Standins,
    own: &str,
) -> Result<(), Reason> {
    let keep = |name: &str| (name == own).then_some(&b""[..]);
    for value in headers.values() {
        in_value(value.as_bytes(), standins, &keep)?;
    }
    Ok(())
}

type Swap<'a> = dyn Fn(&str) -> Option<&'a [u8]> + 'a;

fn in_value(value: &[u8], standins: &Standins, swap: &Swap<'_>) -> Result<Option<Vec<u8>>, Reason> {
    if let Some((scheme, user_pass)) = basic(value)
        && let Some(swapped) = in_text(&user_pass, standins, swap)?
    {
        let mut bytes = scheme.to_vec();
        bytes.extend(BASE64.encode(swapped).bytes());
        return Ok(Some(bytes));
    }
    in_text(value, standins, swap)
}

/// The scheme with what is between, and the decoded rest of `Basic` credentials.
fn basic(value: &[u8]) -> Option<(&[u8], Vec<u8>)> {
    let (scheme, rest) = value.split_at_checked(5)?;
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    let token = rest.trim_ascii();
    let between = rest.len() - rest.trim_ascii_start().len();
    let decoded = BASE64.decode(token).ok()?;
    (between > 0).then(|| (&value[..5 + between], decoded))
}

/// Swaps every stand-in. `None`: there was none.
fn in_text(text: &[u8], standins: &Standins, swap: &Swap<'_>) -> Result<Option<Vec<u8>>, Reason> {
    let mut swapped = Vec::new();
    let (mut at, mut copied) = (0, 0);
    while let Some(found) = text
        .get(at..)
        .and_then(|rest| memmem::find(rest, PREFIX.as_bytes()))
    {
        let start = at + found;
        at = start + PREFIX.len();
        let here = |standin: &Standin| text[start..].starts_with(standin.as_str().as_bytes());
        let Some((name, standin)) = standins.iter().find(|(_, standin)| here(standin)) else {
            continue;
        };
        let secret = swap(name).ok_or(Reason::CredentialMisuse)?;
        swapped.extend_from_slice(&text[copied..start]);
        swapped.extend_from_slice(secret);
        if swapped.len() > MAX_BYTES {
            return Err(Reason::RequestTooLarge);
        }
        copied = start + standin.as_str().len();
        at = copied;
    }
    if copied == 0 {
        return Ok(None);
    }
    swapped.extend_from_slice(&text[copied..]);
    Ok(Some(swapped))
}
