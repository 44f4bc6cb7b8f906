//! Names, and what they lead to.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use namzu_egress::{Answer, Lookup, LookupError, Name};

/// The names of one test. A name that is not here does not exist, unless it is said what such
/// names [lead to](Self::otherwise). Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Zone(Arc<Names>);

#[derive(Debug, Default)]
struct Names {
    names: Mutex<BTreeMap<String, Record>>,
    otherwise: Mutex<Option<Record>>,
    asked: Mutex<Vec<String>>,
}

/// What a name leads to.
#[derive(Clone, Debug)]
pub enum Record {
    /// These addresses.
    Addresses(Vec<IpAddr>),
    /// Other addresses each time it is asked for; the last ones for good.
    InTurn(Vec<Vec<IpAddr>>),
    /// The addresses of another name.
    Alias(String),
    /// No answer, ever.
    Silence,
}

impl Zone {
    /// Enters a name.
    pub fn set(&self, name: &str, record: Record) {
        lock(&self.0.names).insert(name.to_owned(), record);
    }

    /// Enters a name that leads to one address.
    pub fn host(&self, name: &str, address: impl Into<IpAddr>) {
        self.set(name, Record::Addresses(vec![address.into()]));
    }

    /// Says what all other names lead to.
    pub fn otherwise(&self, record: Record) {
        *lock(&self.0.otherwise) = Some(record);
    }

    /// The names that were asked for.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        lock(&self.0.asked).clone()
    }

    /// `None`: silence.
    fn answer(&self, name: &str) -> Option<Result<Answer, LookupError>> {
        let mut names = lock(&self.0.names);
        let mut otherwise = lock(&self.0.otherwise);
        let (mut name, mut chain) = (name.to_owned(), Vec::new());
        // Longer than any chain here; one that has no end is given up as a resolver does.
        for _ in 0..16 {
            let addresses = match names.get_mut(&name).or(otherwise.as_mut()) {
                None => return Some(Err(LookupError("no such name".to_owned()))),
                Some(Record::Silence) => return None,
                Some(Record::Alias(to)) => {
                    chain.push(to.clone());
                    name = to.clone();
                    continue;
                }
                Some(Record::InTurn(turns)) if turns.len() > 1 => turns.remove(0),
                Some(Record::InTurn(turns)) => turns.first().cloned().unwrap_or_default(),
                Some(Record::Addresses(addresses)) => addresses.clone(),
            };
            return Some(Ok(Answer { addresses, chain }));
        }
        Some(Err(LookupError("the chain has no end".to_owned())))
    }
}

#[async_trait]
impl Lookup for Zone {
    async fn lookup(&self, name: &Name) -> Result<Answer, LookupError> {
        lock(&self.0.asked).push(name.as_str().to_owned());
        match self.answer(name.as_str()) {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
