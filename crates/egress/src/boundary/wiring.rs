//! What a sandbox must find inside for its programs to get out.

use std::collections::BTreeMap;
use std::sync::Arc;

use namzu_core::egress::{DNS_PORT, PROXY_PORT, WiredFile, Wiring};

use crate::place::Place;
use crate::tls::trust;

pub(super) fn of(place: &Place) -> Wiring {
    let mut env = hints();
    let mut files = vec![resolv_conf()];
    if let Some(ca) = &place.ca {
        let (variables, more) = trust::trust(ca, &place.outside.bundle);
        env.extend(variables);
        files.extend(more);
    }
    env.extend(place.regime.load().broker.env());
    Wiring {
        doors: true,
        env,
        files,
    }
}

/// Variables that tell programs of the proxy. Names lead to the boundary without them; they save a
/// look-up, reach ports that no rule's door listens on, and keep programs that cannot live with the
/// addresses of names working. They are hints: nothing depends on anybody heeding them.
///
/// `ALL_PROXY` is left out: it sends programs that know no SOCKS (Python's httpx without an extra, some
/// Go and Rust clients) into an error, and whoever ignores `HTTPS_PROXY` is served by the address of the
/// name.
fn hints() -> BTreeMap<String, String> {
    let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
    let inside = "localhost,127.0.0.1,::1";
    let variables = [
        ("HTTP_PROXY", proxy.as_str()),
        ("http_proxy", &proxy),
        ("HTTPS_PROXY", &proxy),
        ("https_proxy", &proxy),
        ("NO_PROXY", inside),
        ("no_proxy", inside),
        // Node heeds the others only with this.
        ("NODE_USE_ENV_PROXY", "1"),
    ];
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    variables.into_iter().map(owned).collect()
}

/// The boundary's look-ups, for absolute names as they are written: no search domains.
fn resolv_conf() -> WiredFile {
    // There is no way to name another port.
    const { assert!(DNS_PORT == 53) };
    let text = "nameserver 127.0.0.1\nsearch .\noptions ndots:0 timeout:5 attempts:1 edns0\n";
    WiredFile {
        path: "/etc/resolv.conf".to_owned(),
        contents: Arc::from(text.as_bytes()),
    }
}
