//! A table before another way to resolve.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Answer, Lookup, LookupError, Static};
use crate::Name;

/// A table; what is not in it is asked elsewhere.
#[derive(Debug)]
pub(crate) struct First {
    pub(crate) table: Static,
    pub(crate) then: Arc<dyn Lookup>,
}

#[async_trait]
impl Lookup for First {
    async fn lookup(&self, name: &Name) -> Result<Answer, LookupError> {
        match self.table.lookup(name).await {
            Ok(found) => Ok(found),
            Err(_) => self.then.lookup(name).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_table_wins_and_the_rest_is_asked_elsewhere() {
        let table = |names: &[(&str, &str)]| {
            let parse = |(name, address): &(&str, &str)| {
                (Name::parse(name).unwrap(), vec![address.parse().unwrap()])
            };
            Static::new(names.iter().map(parse))
        };
        let lookup = First {
            table: table(&[("a.test", "192.0.2.1")]),
            then: Arc::new(table(&[("a.test", "192.0.2.2"), ("b.test", "192.0.2.3")])),
        };
        for (name, address) in [("a.test", "192.0.2.1"), ("b.test", "192.0.2.3")] {
            let found = lookup.lookup(&Name::parse(name).unwrap()).await.unwrap();
            let wanted: std::net::IpAddr = address.parse().unwrap();
            assert_eq!(found.addresses, [wanted], "{name}");
        }
        assert!(
            lookup
                .lookup(&Name::parse("c.test").unwrap())
                .await
                .is_err()
        );
    }
}
