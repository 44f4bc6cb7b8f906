//! The rules between fields, which a schema cannot say. They read the raw document, so that they
//! are reported together with everything else that is wrong with it.

use std::net::IpAddr;

use serde_json::{Map, Value};

/// Rules of a provider's configuration.
pub(super) fn provider(document: &Value, reasons: &mut Vec<String>) {
    let backend = document.get("backend");
    let text = |name| {
        backend
            .and_then(|backend| backend.get(name))
            .and_then(Value::as_str)
    };
    let layout = document.get("layout").filter(|layout| !layout.is_null());
    match (text("tier"), layout) {
        (Some("container"), None) => {
            reasons.push("`layout`: is missing; the container tier needs one".to_owned());
        }
        (Some(tier @ ("process" | "microvm" | "passthrough")), Some(_)) => {
            reasons.push(format!(
                "`layout`: the {tier} tier has none; only the container tier has"
            ));
        }
        _ => {}
    }
    if let Some(backend) = backend.and_then(Value::as_object) {
        label_keys(backend.get("labels"), "backend.labels", reasons);
        if text("service") == Some("self-hosted") {
            self_hosted(backend, reasons);
        }
        container_network(backend, reasons);
    }
    label_keys(document.get("defaultLabels"), "defaultLabels", reasons);
    env_names(document.get("defaultEnv"), "defaultEnv", reasons);
    egress(document.get("defaultEgress"), "defaultEgress", reasons);
}

/// Rules of a create call.
pub(super) fn create(document: &Value, reasons: &mut Vec<String>) {
    label_keys(document.get("labels"), "labels", reasons);
    env_names(document.get("env"), "env", reasons);
    egress(document.get("egress"), "egress", reasons);
    let given = |name: &str| document.get(name).is_some_and(|value| !value.is_null());
    if let Some(path) = document.get("workingDirectory").and_then(Value::as_str)
        && (!path.starts_with('/') || path.contains('\0'))
    {
        reasons.push("`workingDirectory`: is no absolute path".to_owned());
    }
    if given("access") && !given("workingDirectory") {
        reasons.push("`access`: means nothing without `workingDirectory`".to_owned());
    }
}

/// A key becomes `--label key=value` and environment-like text; the first `=` must end it.
fn label_keys(labels: Option<&Value>, path: &str, reasons: &mut Vec<String>) {
    for (key, value) in entries(labels) {
        if key.is_empty() {
            reasons.push(format!("`{path}`: a key is empty"));
        } else if key.contains(['=', '\0']) {
            reasons.push(format!(
                "`{path}`: the key `{}` holds `=` or NUL",
                key.escape_debug()
            ));
        }
        if value.as_str().is_some_and(|text| text.contains('\0')) {
            reasons.push(format!("`{path}.{}`: holds NUL", key.escape_debug()));
        }
    }
}

fn env_names(env: Option<&Value>, path: &str, reasons: &mut Vec<String>) {
    for (name, value) in entries(env) {
        if name.is_empty() {
            reasons.push(format!("`{path}`: a name is empty"));
        } else if name.contains(['=', '\0']) {
            reasons.push(format!(
                "`{path}`: the name `{}` holds `=` or NUL",
                name.escape_debug()
            ));
        }
        if value.as_str().is_some_and(|text| text.contains('\0')) {
            reasons.push(format!("`{path}.{}`: holds NUL", name.escape_debug()));
        }
    }
}

/// What can be told of a policy without the boundary, which reads it anew and more closely.
fn egress(egress: Option<&Value>, path: &str, reasons: &mut Vec<String>) {
    for list in ["allowedHosts", "deniedHosts"] {
        for (index, host) in items(egress, list) {
            host_pattern(host.as_str(), &format!("{path}.{list}[{index}]"), reasons);
        }
    }
    let credentials = egress.and_then(|egress| egress.get("credentials"));
    for (index, rule) in items(egress, "rules") {
        let text = |field| rule.get(field).and_then(Value::as_str);
        let at = format!("{path}.rules[{index}]");
        host_pattern(text("host"), &format!("{at}.host"), reasons);
        if let Some(name) = text("credential")
            && credentials.is_none_or(|credentials| credentials.get(name).is_none())
        {
            reasons.push(format!(
                "`{at}.credential`: `{}` is no credential of this policy",
                name.escape_debug()
            ));
        }
        if text("scheme") == Some("tcp") && items(Some(rule), "ports").next().is_none() {
            reasons.push(format!(
                "`{at}.ports`: is missing; `scheme` `tcp` needs its ports named"
            ));
        }
    }
}

fn host_pattern(host: Option<&str>, at: &str, reasons: &mut Vec<String>) {
    // A name, never a URL: `https://x` would match no name and so silently deny.
    let is_range = |host: &str| {
        host.split_once('/')
            .is_some_and(|(address, _)| address.parse::<IpAddr>().is_ok())
    };
    if host.is_some_and(|host| {
        host.is_empty()
            || host.contains(['@', '?', '#'])
            || host.contains(char::is_whitespace)
            || (host.contains('/') && !is_range(host))
    }) {
        reasons.push(format!("`{at}`: is no host name"));
    }
}

fn items<'a>(
    parent: Option<&'a Value>,
    field: &str,
) -> impl Iterator<Item = (usize, &'a Value)> + use<'a> {
    parent
        .and_then(|parent| parent.get(field))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
}

fn container_network(backend: &Map<String, Value>, reasons: &mut Vec<String>) {
    let network = backend.get("network").and_then(Value::as_str);
    let reach = backend.get("hostReachability").and_then(Value::as_str);
    if reach == Some("container-network") && matches!(network, None | Some("none")) {
        reasons.push(
            "`backend.network`: `hostReachability` is `container-network`, which needs the name \
             of a network"
                .to_owned(),
        );
    }
}

fn self_hosted(backend: &Map<String, Value>, reasons: &mut Vec<String>) {
    let given = |name: &str| backend.get(name).is_some_and(|value| !value.is_null());
    if given("orchestratorEndpoint") {
        if !given("getToken") {
            reasons
                .push("`backend.getToken`: is missing; `orchestratorEndpoint` needs it".to_owned());
        }
        return;
    }
    for name in ["firecrackerBinary", "kernelImage", "rootfsImage"] {
        let empty = backend.get(name).and_then(Value::as_str) == Some("");
        if !given(name) || empty {
            reasons.push(format!(
                "`backend.{name}`: is missing; without `orchestratorEndpoint` it is needed"
            ));
        }
    }
    for name in [
        "getToken",
        "template",
        "agentSnapshot",
        "mtls",
        "controlPlaneMtls",
    ] {
        if given(name) {
            reasons.push(format!(
                "`backend.{name}`: means nothing without `orchestratorEndpoint`"
            ));
        }
    }
}

fn entries(map: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    map.and_then(Value::as_object).into_iter().flatten()
}
