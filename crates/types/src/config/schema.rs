//! Checks a JSON value against a derived JSON schema, gathering every violation with its path.
//!
//! It knows the keywords that this crate's schemas use, and no more: a test refuses a schema with
//! any other. Values are quoted in messages only where the schema lists what may stand there, so
//! that a secret in the wrong place is never printed.

use std::collections::BTreeSet;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value};

use super::ConfigError;

/// A document of nothing but faults is not answered with a longer one.
const MAX_REASONS: usize = 64;

/// The schema of `T`.
pub(super) fn of<T: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

/// Every violation of the schema of `T`.
pub(super) fn violations<T: JsonSchema>(value: &Value) -> Vec<String> {
    let root = of::<T>();
    let mut walk = Walk {
        root: &root,
        reasons: Vec::new(),
    };
    walk.check(&root, value, "");
    walk.reasons
}

/// Deserialises what passed; a failure that the schema did not foresee is reported without the
/// value.
pub(super) fn read<T>(
    mut reasons: Vec<String>,
    deserialize: impl FnOnce() -> Result<T, serde_json::Error>,
) -> Result<T, ConfigError> {
    if reasons.len() > MAX_REASONS {
        let more = reasons.len() - MAX_REASONS;
        reasons.truncate(MAX_REASONS);
        reasons.push(format!("and {more} more"));
    }
    if !reasons.is_empty() {
        return Err(ConfigError { reasons });
    }
    deserialize().map_err(|err| ConfigError::one(err.to_string()))
}

struct Walk<'a> {
    root: &'a Value,
    reasons: Vec<String>,
}

impl<'a> Walk<'a> {
    fn refuse(&mut self, path: &str, what: impl AsRef<str>) {
        let path = if path.is_empty() {
            "the document"
        } else {
            path
        };
        self.reasons.push(format!("`{path}`: {}", what.as_ref()));
    }

    fn resolve(&self, schema: &'a Value) -> &'a Value {
        let mut schema = schema;
        while let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            match target
                .strip_prefix('#')
                .and_then(|at| self.root.pointer(at))
            {
                Some(next) => schema = next,
                None => break,
            }
        }
        schema
    }

    fn check(&mut self, schema: &'a Value, value: &Value, path: &str) {
        let schema = self.resolve(schema);
        if let Some(branches) = branches(schema) {
            return self.check_union(branches, value, path);
        }
        if let Some(listed) = self.listed(schema) {
            if !listed.contains(&value) {
                let listed = listed.into_iter().map(plain).collect::<Vec<_>>().join(", ");
                let found = match value {
                    Value::String(_) => format!("{} is unknown", show(value)),
                    other => format!("expects a string, found {}", kind(other)),
                };
                self.refuse(path, format!("{found}; there are {listed}"));
            }
            return;
        }
        let wanted = types(schema);
        if !wanted.is_empty() && !wanted.iter().any(|one| is_type(value, one)) {
            self.refuse(
                path,
                format!("expects {}, found {}", wanted_text(&wanted), kind(value)),
            );
            return;
        }
        match value {
            Value::Object(map) => self.check_object(schema, map, path),
            Value::Array(items) => {
                if let Some(least) = schema.get("minItems").and_then(Value::as_u64)
                    && (items.len() as u64) < least
                {
                    self.refuse(path, "is empty");
                }
                if let Some(each) = schema.get("items") {
                    for (index, item) in items.iter().enumerate() {
                        self.check(each, item, &format!("{path}[{index}]"));
                    }
                }
            }
            Value::String(text) => {
                if schema.get("minLength").is_some() && text.is_empty() {
                    self.refuse(path, "is empty");
                }
            }
            Value::Number(number) => self.check_range(schema, number, path),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn check_range(&mut self, schema: &Value, number: &serde_json::Number, path: &str) {
        let bound = |key| schema.get(key).and_then(Value::as_f64);
        let (least, most) = (bound("minimum"), bound("maximum"));
        let Some(found) = number.as_f64() else {
            return self.refuse(path, "is no number that can be held");
        };
        if least.is_some_and(|least| found < least) || most.is_some_and(|most| found > most) {
            let side = |bound: Option<f64>| bound.map_or_else(String::new, |b| b.to_string());
            self.refuse(
                path,
                format!(
                    "{number} is out of range; it may be {} to {}",
                    side(least),
                    side(most)
                ),
            );
        }
    }

    fn check_object(&mut self, schema: &'a Value, map: &Map<String, Value>, path: &str) {
        let empty = Map::new();
        let properties = schema
            .get("properties")
            .and_then(Value::as_object)
            .unwrap_or(&empty);
        for name in strings(schema.get("required")) {
            if !map.contains_key(name) {
                self.refuse(&join(path, name), "is missing");
            }
        }
        // The borrow of `empty` must not outlive this call, so look each schema up from the root.
        for (name, value) in map {
            let at = join(path, name);
            let property = schema.get("properties").and_then(|all| all.get(name));
            match (property, schema.get("additionalProperties")) {
                (Some(property), _) => self.check(property, value, &at),
                (None, Some(Value::Bool(false))) => {
                    let known = properties
                        .keys()
                        .map(String::as_str)
                        .collect::<Vec<_>>()
                        .join(", ");
                    let known = if known.is_empty() { "none" } else { &known };
                    self.refuse(&at, format!("unknown field; there are {known}"));
                }
                (None, Some(each)) => self.check(each, value, &at),
                (None, None) => {}
            }
        }
    }

    /// Finds the one branch that `value` means, by its tag, its fields or its type.
    fn check_union(&mut self, branches: &'a [Value], value: &Value, path: &str) {
        let mut branches: Vec<&'a Value> = branches.iter().map(|one| self.resolve(one)).collect();
        // An absent optional field.
        if value.is_null() && branches.iter().any(|one| types(one) == ["null"]) {
            return;
        }
        branches.retain(|one| types(one) != ["null"]);
        if let [only] = branches.as_slice() {
            return self.check(only, value, path);
        }
        if let Some(tag) = self.tag(&branches) {
            return self.check_tagged(&branches, &tag, value, path);
        }
        let fits = |branch: &&&'a Value| self.may_be(branch, value);
        let fitting: Vec<&'a Value> = branches.iter().filter(fits).copied().collect();
        match fitting.as_slice() {
            [] => {
                let mut wanted = BTreeSet::new();
                for branch in &branches {
                    self.describe(branch, &mut wanted);
                }
                let wanted = wanted.into_iter().collect::<Vec<_>>().join(" or ");
                self.refuse(path, format!("expects {wanted}, found {}", kind(value)));
            }
            [branch, ..] => self.check(branch, value, path),
        }
    }

    fn check_tagged(&mut self, branches: &[&'a Value], tag: &str, value: &Value, path: &str) {
        let all: Vec<Value> = branches
            .iter()
            .flat_map(|branch| self.tag_values(branch, tag))
            .collect();
        let Some(map) = value.as_object() else {
            let example = all
                .first()
                .map_or_else(String::new, |first| format!(", e.g. {{\"{tag}\":{first}}}"));
            let found = kind(value);
            return self.refuse(path, format!("expects an object{example}, found {found}"));
        };
        let at = join(path, tag);
        let there = || all.iter().map(plain).collect::<Vec<_>>().join(", ");
        let chosen = match map.get(tag) {
            Some(named) => branches
                .iter()
                .find(|branch| self.tag_values(branch, tag).contains(named)),
            None => branches.iter().find(|branch| !self.requires(branch, tag)),
        };
        match (chosen, map.get(tag)) {
            (Some(branch), _) => self.check(branch, value, path),
            (None, None) => {
                let reason = format!("is missing; there are {}", there());
                self.refuse(&at, reason);
            }
            (None, Some(named @ Value::String(_))) => {
                let reason = format!("{} is unknown; there are {}", show(named), there());
                self.refuse(&at, reason);
            }
            (None, Some(other)) => {
                let reason = format!(
                    "expects a string, found {}; there are {}",
                    kind(other),
                    there()
                );
                self.refuse(&at, reason);
            }
        }
    }

    /// The property whose listed values tell the branches apart.
    fn tag(&self, branches: &[&'a Value]) -> Option<String> {
        let first = self.leaves(branches.first()?);
        let names = first.first()?.get("properties")?.as_object()?.keys();
        names
            .filter(|name| {
                let mut seen = BTreeSet::new();
                branches.len() > 1
                    && branches.iter().all(|branch| {
                        let values = self.tag_values(branch, name);
                        !values.is_empty()
                            && values.iter().map(Value::to_string).all(|v| seen.insert(v))
                    })
            })
            .min()
            .cloned()
    }

    /// The alternatives of `schema`, through nested unions.
    fn leaves(&self, schema: &'a Value) -> Vec<&'a Value> {
        let schema = self.resolve(schema);
        match branches(schema) {
            Some(inner) => inner.iter().flat_map(|one| self.leaves(one)).collect(),
            None => vec![schema],
        }
    }

    /// The values that `tag` may have in `branch`, each once; empty where it is no listed value.
    fn tag_values(&self, branch: &'a Value, tag: &str) -> Vec<Value> {
        let mut values = Vec::new();
        for leaf in self.leaves(branch) {
            let listed = leaf
                .get("properties")
                .and_then(|all| all.get(tag))
                .and_then(|property| self.listed(self.resolve(property)));
            match listed {
                Some(listed) => {
                    for value in listed {
                        if !values.contains(value) {
                            values.push(value.clone());
                        }
                    }
                }
                None => return Vec::new(),
            }
        }
        values
    }

    fn requires(&self, branch: &'a Value, tag: &str) -> bool {
        self.leaves(branch)
            .iter()
            .all(|leaf| strings(leaf.get("required")).any(|name| name == tag))
    }

    /// The values that `schema` lists, where it is a list of values.
    fn listed(&self, schema: &'a Value) -> Option<Vec<&'a Value>> {
        if let Some(value) = schema.get("const") {
            return Some(vec![value]);
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return Some(values.iter().collect());
        }
        let branches = schema.get("oneOf").or_else(|| schema.get("anyOf"))?;
        let mut values = Vec::new();
        for branch in branches.as_array()? {
            values.extend(self.listed(self.resolve(branch))?);
        }
        Some(values)
    }

    /// Whether `value` has the shape of `branch` at a glance: its type, and a known field.
    fn may_be(&self, branch: &'a Value, value: &Value) -> bool {
        self.leaves(branch).iter().any(|leaf| {
            let wanted = types(leaf);
            let required: Vec<&str> = strings(leaf.get("required")).collect();
            let typed = wanted.is_empty() || wanted.iter().any(|one| is_type(value, one));
            typed && (required.is_empty() || required.iter().any(|name| value.get(name).is_some()))
        })
    }

    fn describe(&self, schema: &'a Value, into: &mut BTreeSet<String>) {
        for leaf in self.leaves(schema) {
            let required: Vec<&str> = strings(leaf.get("required")).collect();
            match (types(leaf).as_slice(), required.first()) {
                (_, Some(name)) => into.insert(format!("an object with `{name}`")),
                (wanted, None) => into.insert(wanted_text(wanted)),
            };
        }
    }
}

/// The alternatives of `schema`, unless it is a plain list of values.
fn branches(schema: &Value) -> Option<&Vec<Value>> {
    let all = schema.get("oneOf").or_else(|| schema.get("anyOf"))?;
    let all = all.as_array()?;
    let plain = |one: &Value| one.get("const").is_some() || one.get("enum").is_some();
    if all.iter().all(plain) {
        return None;
    }
    Some(all)
}

fn strings(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// The types that `schema` admits; empty is any.
fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        list => strings(list).collect(),
    }
}

fn is_type(value: &Value, wanted: &str) -> bool {
    match wanted {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        _ => false,
    }
}

fn wanted_text(wanted: &[&str]) -> String {
    let named: Vec<&str> = wanted
        .iter()
        .filter(|one| **one != "null")
        .map(|one| match *one {
            "boolean" => "true or false",
            "integer" => "a whole number",
            "number" => "a number",
            "array" => "a list",
            "object" => "an object",
            _ => "a string",
        })
        .collect();
    named.join(" or ")
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "true or false".to_owned(),
        Value::Number(number) if number.is_f64() => {
            "a number with a fraction or exponent".to_owned()
        }
        Value::Number(_) => "a number".to_owned(),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(map) => match map.keys().next() {
            Some(name) => format!("an object with `{}`", clip(name)),
            None => "an empty object".to_owned(),
        },
    }
}

/// What stands in place of a listed value, in quotes.
fn show(value: &Value) -> String {
    format!("`{}`", plain(value))
}

/// A listed value, at most 64 characters of it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => clip(text),
        other => clip(&other.to_string()),
    }
}

fn clip(text: &str) -> String {
    let short: String = text.chars().take(64).collect();
    let escaped = short.escape_debug().to_string();
    if text.chars().count() > 64 {
        escaped + "…"
    } else {
        escaped
    }
}

fn join(path: &str, name: &str) -> String {
    let name = clip(name);
    if path.is_empty() {
        name
    } else {
        format!("{path}.{name}")
    }
}
