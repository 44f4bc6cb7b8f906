//! Takes a secret out of what comes back: a host that echoes requests would else hand it to whoever sent
//! one.
//!
//! It is found as it was sent and in the forms in which it is commonly echoed, whatever the case of its
//! letters: whoever sent the request chose the header that a stand-in was in, and servers write back some
//! headers in lower or title case. Every body is searched, whatever it says it is: an echo may repeat the
//! type that it was sent. A host that is set on handing it over (backwards, encrypted, a byte an answer)
//! is not stopped: the rule trusts it with the secret.

use std::fmt;
use std::sync::Arc;

use ::http::{HeaderMap, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::needle::Needle;

/// Forms shorter than this, in bytes, are not looked for: they turn up by chance.
const SHORTEST: usize = 6;

/// What one request must not get back. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Scrub {
    needles: Arc<[Needle]>,
}

/// One body on its way in.
pub(crate) struct ScrubBody {
    needles: Arc<[Needle]>,
    /// What may be the beginning of a secret, as it came but in lower case.
    raw: Vec<u8>,
    /// The same bytes as they came, with what is known to be of a secret filled in.
    clean: Vec<u8>,
}

impl Scrub {
    /// Of a secret. Its place is taken by `standin` where that is as long, and by `*` else. `basic`:
    /// the secret is user and password in Base64, which are secret too.
    pub(super) fn new(secret: &str, standin: Option<&str>, basic: bool) -> Self {
        let mut forms = forms(secret.as_bytes());
        if basic && let Ok(user_pass) = STANDARD.decode(secret) {
            let colon = user_pass.iter().position(|byte| *byte == b':');
            let password = &user_pass[colon.map_or(0, |at| at + 1)..];
            forms.extend(spelt(&user_pass));
            forms.extend(spelt(password));
        }
        forms.retain(|form| form.len() >= SHORTEST);
        forms.sort();
        forms.dedup();
        // The secret itself comes last: its stand-in is not to be starred again by a part of it.
        let mut needles: Vec<Needle> = forms
            .iter()
            .filter(|form| form.as_slice() != secret.as_bytes())
            .map(|form| Needle::new(form, &vec![b'*'; form.len()]))
            .collect();
        let stars = "*".repeat(secret.len());
        let fill = standin.filter(|standin| standin.len() == secret.len());
        needles.push(Needle::new(
            secret.as_bytes(),
            fill.unwrap_or(&stars).as_bytes(),
        ));
        Self {
            needles: needles.into(),
        }
    }

    /// Takes it out of an answer's headers, or trailers.
    pub(crate) fn headers(&self, headers: &mut HeaderMap) {
        for value in headers.values_mut() {
            let mut clean = value.as_bytes().to_vec();
            mask(&self.needles, &clean.to_ascii_lowercase(), &mut clean);
            if clean != value.as_bytes() {
                // What is filled in is of letters, digits and stars: it is a value as before.
                *value = HeaderValue::from_bytes(&clean)
                    .unwrap_or_else(|_| HeaderValue::from_static("*"));
            }
        }
    }

    /// For the body of an answer. The length stays what it is.
    pub(crate) fn body(&self) -> ScrubBody {
        ScrubBody {
            needles: Arc::clone(&self.needles),
            raw: Vec::new(),
            clean: Vec::new(),
        }
    }
}

impl ScrubBody {
    /// Takes the next bytes, and appends to `out` those that can be shown now. What may be the beginning
    /// of a secret is held back, which is never more than the secret's length.
    pub(crate) fn feed(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        let known = self.raw.len();
        self.raw.extend_from_slice(chunk);
        self.raw[known..].make_ascii_lowercase();
        self.clean.extend_from_slice(chunk);
        mask(&self.needles, &self.raw, &mut self.clean);
        let held = self.needles.iter().map(|needle| needle.begun(&self.raw));
        let free = self.raw.len() - held.max().unwrap_or(0);
        self.raw.drain(..free);
        out.extend(self.clean.drain(..free));
        // One large chunk is not to be remembered for the life of a stream.
        self.raw.shrink_to(LARGEST_IDLE);
        self.clean.shrink_to(LARGEST_IDLE);
    }

    /// Ends the body: appends what was held back.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        self.raw.clear();
        out.append(&mut self.clean);
    }
}

/// What a body's buffers may keep between chunks.
const LARGEST_IDLE: usize = 32 * 1024;

fn mask(needles: &[Needle], raw: &[u8], clean: &mut [u8]) {
    for needle in needles {
        needle.mask(raw, clean);
    }
}

/// The forms in which a secret is echoed.
fn forms(secret: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = spelt(secret);
    for before in 0..3 {
        forms.push(base64_middle(&STANDARD_NO_PAD, secret, before));
        forms.push(base64_middle(&URL_SAFE_NO_PAD, secret, before));
    }
    forms
}

/// As it is, and as it stands in JSON, HTML and URLs.
fn spelt(secret: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = vec![
        secret.to_vec(),
        percent(secret, |byte| format!("%{byte:02X}")),
        percent(secret, |byte| format!("%{byte:02x}")),
    ];
    if let Ok(text) = std::str::from_utf8(secret) {
        let json = text.replace('\\', "\\\\").replace('"', "\\\"");
        let html = text.replace('&', "&amp;").replace('<', "&lt;");
        let html = html.replace('>', "&gt;").replace('"', "&quot;");
        forms.push(json.replace('/', "\\/").into_bytes());
        forms.push(json.into_bytes());
        forms.push(html.replace('\'', "&#39;").into_bytes());
        forms.push(html.into_bytes());
    }
    forms
}

fn percent(secret: &[u8], code: impl Fn(u8) -> String) -> Vec<u8> {
    let mut text = Vec::new();
    for byte in secret {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            text.push(*byte);
        } else {
            text.extend(code(*byte).bytes());
        }
    }
    text
}

/// The letters that the secret alone decides when it stands, `before` bytes after a multiple of three,
/// in something longer that is encoded.
fn base64_middle(engine: &GeneralPurpose, secret: &[u8], before: usize) -> Vec<u8> {
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(secret);
    let text = engine.encode(&bytes);
    let (first, last) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
    text.as_bytes()
        .get(first..last)
        .unwrap_or_default()
        .to_vec()
}

impl fmt::Debug for Scrub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scrub(..)")
    }
}

impl fmt::Debug for ScrubBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScrubBody(..)")
    }
}
