//! The name servers of this host, or others that were given.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use hickory_resolver::system_conf::read_system_conf;
use tokio::time::Instant;

use super::{Answer, Lookup, LookupError};
use crate::Name;
use crate::lock::locked;

/// How long an answer holds at least: a name that is asked for each connection is not asked each time.
const LEAST: Duration = Duration::from_secs(1);
/// And at most: whoever moves a service is followed soon.
const MOST: Duration = Duration::from_secs(30);
/// And that there is none: whoever waits for a name to come finds it soon.
const MISSING: Duration = Duration::from_secs(5);
/// For one server to answer, so that a second can be asked within the deadline.
const SERVER: Duration = Duration::from_secs(2);
/// How often it is looked whether the host's settings changed.
const AGAIN: Duration = Duration::from_secs(5);
/// What the settings are made of.
const SETTINGS: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

/// Asks name servers by itself: nothing of the C library, no search domains.
pub(crate) struct System {
    /// Given, instead of those of the host.
    servers: Option<Vec<SocketAddr>>,
    current: Mutex<Option<Current>>,
}

struct Current {
    resolver: Arc<TokioResolver>,
    looked: Instant,
    changed: [Option<SystemTime>; 2],
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("System")
            .field("servers", &self.servers)
            .finish_non_exhaustive()
    }
}

impl System {
    /// Those that the host asks, with its hosts file.
    pub(crate) const fn host() -> Self {
        Self {
            servers: None,
            current: Mutex::new(None),
        }
    }

    /// These, and no hosts file.
    pub(crate) const fn servers(servers: Vec<SocketAddr>) -> Self {
        Self {
            servers: Some(servers),
            current: Mutex::new(None),
        }
    }

    /// The resolver for the settings as they are. Reads them when they changed, e.g. with the network of a
    /// laptop.
    fn resolver(&self) -> Result<Arc<TokioResolver>, LookupError> {
        let mut current = locked(&self.current);
        if let Some(known) = &mut *current {
            if self.servers.is_some() || known.looked.elapsed() < AGAIN {
                return Ok(Arc::clone(&known.resolver));
            }
            known.looked = Instant::now();
            if known.changed == stamps() {
                return Ok(Arc::clone(&known.resolver));
            }
        }
        let changed = stamps();
        let resolver = Arc::new(self.build().map_err(|why| LookupError(why.to_string()))?);
        *current = Some(Current {
            resolver: Arc::clone(&resolver),
            looked: Instant::now(),
            changed,
        });
        Ok(resolver)
    }

    fn build(&self) -> Result<TokioResolver, hickory_resolver::net::NetError> {
        let (config, mut options) = match &self.servers {
            Some(servers) => {
                let servers = servers.iter().map(|at| server(*at)).collect();
                let config = ResolverConfig::from_name_servers(servers);
                (config, ResolverOpts::default())
            }
            None => read_system_conf()?,
        };
        options.timeout = SERVER;
        options.attempts = options.attempts.clamp(1, 2);
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        options.positive_min_ttl = Some(LEAST);
        options.positive_max_ttl = Some(MOST);
        options.negative_max_ttl = Some(MISSING);
        options.preserve_intermediates = true;
        options.try_tcp_on_error = true;
        options.use_hosts_file = match self.servers {
            Some(_) => ResolveHosts::Never,
            None => ResolveHosts::Always,
        };
        // The domain and search list go nowhere: only absolute names are asked for.
        let (_, _, servers) = config.into_parts();
        let config = ResolverConfig::from_name_servers(servers);
        TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
            .with_options(options)
            .build()
    }
}

fn server(at: SocketAddr) -> NameServerConfig {
    let mut server = NameServerConfig::udp_and_tcp(at.ip());
    for connection in &mut server.connections {
        connection.port = at.port();
    }
    server
}

fn stamps() -> [Option<SystemTime>; 2] {
    SETTINGS.map(|path| {
        std::fs::metadata(path)
            .and_then(|found| found.modified())
            .ok()
    })
}

#[async_trait]
impl Lookup for System {
    async fn lookup(&self, name: &Name) -> Result<Answer, LookupError> {
        let resolver = self.resolver()?;
        // With the final dot it is absolute.
        let absolute = format!("{name}.");
        let found = resolver
            .lookup_ip(absolute.as_str())
            .await
            .map_err(|why| LookupError(why.to_string()))?;
        let mut chain = Vec::new();
        for record in found.as_lookup().answers() {
            if let RData::CNAME(to) = &record.data {
                let to = to.to_string().trim_end_matches('.').to_ascii_lowercase();
                if !chain.contains(&to) {
                    chain.push(to);
                }
            }
        }
        Ok(Answer {
            addresses: found.iter().collect(),
            chain,
        })
    }
}

#[cfg(test)]
mod tests;
