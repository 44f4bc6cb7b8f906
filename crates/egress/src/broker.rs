//! Secrets: kept on the host, put into requests where a rule says so, taken out of what comes back.

mod form;
mod held;
mod needle;
pub(crate) mod scrub;
mod standin;
mod swap;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use ::http::header::{ACCEPT_CHARSET, ACCEPT_ENCODING, HeaderName, IF_RANGE, RANGE};
use ::http::{HeaderMap, HeaderValue};
use namzu_types::EgressCredential;
use tokio::task::JoinSet;

use self::form::Usage;
use self::held::Held;
pub(crate) use self::scrub::{Scrub, ScrubBody};
use self::standin::Standin;
use crate::Reason;

/// What asks for less than the whole of an answer, or for letters that are written in another way. A server
/// may always answer as if it had not been there (RFC 9110 §12.5.2, §14.2).
const PARTS: [HeaderName; 3] = [ACCEPT_CHARSET, IF_RANGE, RANGE];

/// The secrets of one sandbox.
#[derive(Default)]
pub(crate) struct Broker {
    credentials: BTreeMap<Box<str>, Credential>,
    /// Of every credential that the sandbox ever had one for: what it was given once stays known, and a
    /// credential that comes back has the stand-in that programs inside still hold.
    standins: BTreeMap<Box<str>, Standin>,
}

/// One secret and what it is for.
struct Credential {
    /// What it was made from, to know it again when the policy changes.
    origin: EgressCredential,
    held: Arc<Held>,
}

impl Broker {
    /// Asks each source once. `previous` is the broker of the policy in force: stand-ins stay what they
    /// are there, and a credential that did not change is not asked again.
    ///
    /// # Errors
    ///
    /// Every reason, each with the path of the credential that it is about; no secret is in any.
    pub(crate) async fn load(
        credentials: &BTreeMap<String, EgressCredential>,
        previous: Option<&Self>,
    ) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        let mut loaded = Self {
            credentials: BTreeMap::new(),
            standins: previous.map(|old| old.standins.clone()).unwrap_or_default(),
        };
        let mut asked = JoinSet::new();
        for (name, origin) in credentials {
            if let Some(held) = reusable(previous, name, origin).await {
                loaded.enter(name, origin, held);
                continue;
            }
            let (name, origin) = (name.clone(), origin.clone());
            let standin = loaded.standins.get(name.as_str()).cloned();
            asked.spawn(async move {
                let held = ask(&origin, standin).await;
                (name, origin, held)
            });
        }
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok((name, origin, Ok(held))) => loaded.enter(&name, &origin, held),
                Ok((name, _, Err(why))) => faults.push(format!("credentials.{name}: {why}")),
                // Which one is not told; that the closure panicked was printed already.
                Err(_) => faults.push("credentials: a source failed".to_owned()),
            }
        }
        if faults.is_empty() {
            Ok(loaded)
        } else {
            faults.sort();
            Err(faults)
        }
    }

    fn enter(&mut self, name: &str, origin: &EgressCredential, held: Arc<Held>) {
        if let Some(standin) = held.usage().standin() {
            self.standins.insert(name.into(), standin.clone());
        }
        let origin = origin.clone();
        self.credentials
            .insert(name.into(), Credential { origin, held });
    }

    /// The variables that hold stand-ins.
    pub(crate) fn env(&self) -> BTreeMap<String, String> {
        self.credentials
            .values()
            .filter_map(|credential| match &credential.origin {
                EgressCredential::Sentinel { env, .. } => {
                    let standin = credential.held.usage().standin()?;
                    Some((env.clone(), standin.as_str().to_owned()))
                }
                EgressCredential::Inject { .. } => None,
            })
            .collect()
    }

    /// Makes a request's headers what the outside is to see: `credential` is what the rule names that
    /// lets the request pass. What comes back must go through the [`Scrub`], if there is one.
    ///
    /// Headers that only concern one connection must be gone before: `Connection: authorization` would
    /// else take out again what was put in here.
    ///
    /// # Errors
    ///
    /// [`Reason::CredentialMisuse`] for a stand-in that does not belong to `credential`,
    /// [`Reason::CredentialMissing`] while its source gives no value, [`Reason::RequestTooLarge`].
    /// `headers` are not to be used then.
    ///
    /// # Cancel safety
    ///
    /// A source that was being asked is asked to the end for the next request.
    pub(crate) async fn outgoing(
        &self,
        credential: Option<&str>,
        headers: &mut HeaderMap,
    ) -> Result<Option<Scrub>, Reason> {
        let Some(name) = credential else {
            swap::exchange(headers, &self.standins, None)?;
            return Ok(None);
        };
        // Misuse is found before a source is asked: it is wrong whatever the source says.
        swap::refuse_others(headers, &self.standins, name)?;
        let held = &self
            .credentials
            .get(name)
            .ok_or(Reason::CredentialMissing)?
            .held;
        let ready = held.current().await.ok_or(Reason::CredentialMissing)?;
        match held.usage() {
            Usage::Inject { header, .. } => {
                form::strip(headers, header);
                let value = ready.header.clone().ok_or(Reason::CredentialMissing)?;
                headers.insert(header.clone(), value);
            }
            Usage::Sentinel { .. } => {
                swap::exchange(headers, &self.standins, Some((name, &ready.secret)))?;
            }
        }
        // What is compressed, in an encoding of the asker's choice or of a part alone cannot be searched for
        // what must not come back.
        for name in PARTS {
            headers.remove(name);
        }
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        Ok(Some(ready.scrub.clone()))
    }
}

/// What `previous` holds of a credential, if it is the same one and has a value.
async fn reusable(
    previous: Option<&Broker>,
    name: &str,
    origin: &EgressCredential,
) -> Option<Arc<Held>> {
    let known = previous?.credentials.get(name)?;
    if known.origin != *origin {
        return None;
    }
    known.held.current().await?;
    Some(Arc::clone(&known.held))
}

async fn ask(origin: &EgressCredential, standin: Option<Standin>) -> Result<Arc<Held>, String> {
    match origin {
        EgressCredential::Inject {
            source,
            header,
            format,
        } => {
            let usage = Usage::inject(header, format)?;
            Held::load(source.clone(), |_| Ok(usage)).await
        }
        EgressCredential::Sentinel { source, .. } => {
            Held::load(source.clone(), |secret| {
                let standin = match standin {
                    Some(known) => known,
                    None => Standin::random(secret.expose().len())?,
                };
                Ok(Usage::Sentinel { standin })
            })
            .await
        }
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: BTreeSet<_> = self.credentials.keys().collect();
        f.debug_tuple("Broker").field(&names).finish()
    }
}

#[cfg(test)]
mod tests;
