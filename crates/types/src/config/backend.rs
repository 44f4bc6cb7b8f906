//! The union of every backend's configuration, tagged by `tier`, then `runtime` or `service`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::{Map, Value};

use super::{
    AciStandbyPoolBackendConfig, ContainerBackendConfig, E2bBackendConfig,
    FlyMachinesBackendConfig, PassthroughBackendConfig, ProcessBackendConfig,
    SelfHostedBackendConfig,
};
use crate::{Tier, ValueSource};

/// Which backend, and how it is set up.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BackendConfig {
    /// `{"tier": "process"}`
    Process(ProcessBackendConfig),
    /// `{"tier": "container", "runtime": "docker" | "runsc"}`
    Container(ContainerBackendConfig),
    /// `{"tier": "container", "runtime": "aci-standby-pool"}`
    AciStandbyPool(AciStandbyPoolBackendConfig),
    /// `{"tier": "microvm", "service": "e2b"}`
    E2b(E2bBackendConfig),
    /// `{"tier": "microvm", "service": "fly-machines"}`
    FlyMachines(FlyMachinesBackendConfig),
    /// `{"tier": "microvm", "service": "self-hosted"}`
    SelfHosted(Box<SelfHostedBackendConfig>),
    /// `{"tier": "passthrough"}`
    Passthrough(PassthroughBackendConfig),
}

impl Default for BackendConfig {
    /// The process tier with whatever engine this host offers.
    fn default() -> Self {
        Self::Process(ProcessBackendConfig::default())
    }
}

impl BackendConfig {
    /// The tier.
    #[must_use]
    pub const fn tier(&self) -> Tier {
        match self {
            Self::Process(_) => Tier::Process,
            Self::Container(_) | Self::AciStandbyPool(_) => Tier::Container,
            Self::E2b(_) | Self::FlyMachines(_) | Self::SelfHosted(_) => Tier::Microvm,
            Self::Passthrough(_) => Tier::Passthrough,
        }
    }

    /// The label for people and errors, e.g. `process:auto`, `container:runsc`, `microvm:e2b`.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::Process(config) => format!("process:{}", config.engine.as_str()),
            Self::Container(config) => format!("container:{}", config.runtime.as_str()),
            Self::AciStandbyPool(_) => "container:aci-standby-pool".to_owned(),
            Self::E2b(_) => "microvm:e2b".to_owned(),
            Self::FlyMachines(_) => "microvm:fly-machines".to_owned(),
            Self::SelfHosted(_) => "microvm:self-hosted".to_owned(),
            Self::Passthrough(_) => "passthrough".to_owned(),
        }
    }

    /// The second tag, where it is not a field of the configuration itself.
    const fn second_tag(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Process(_) | Self::Container(_) | Self::Passthrough(_) => None,
            Self::AciStandbyPool(_) => Some(("runtime", "aci-standby-pool")),
            Self::E2b(_) => Some(("service", "e2b")),
            Self::FlyMachines(_) => Some(("service", "fly-machines")),
            Self::SelfHosted(_) => Some(("service", "self-hosted")),
        }
    }

    pub(super) fn visit_sources(&mut self, visit: &mut dyn FnMut(&mut ValueSource)) {
        match self {
            Self::Process(_) | Self::Container(_) | Self::Passthrough(_) => {}
            Self::AciStandbyPool(config) => visit(&mut config.get_arm_token),
            Self::E2b(config) => visit(&mut config.api_key),
            Self::FlyMachines(config) => visit(&mut config.api_token),
            Self::SelfHosted(config) => {
                if let Some(source) = &mut config.get_token {
                    visit(source);
                }
                let blocks = [&mut config.mtls, &mut config.control_plane_mtls];
                for mtls in blocks.into_iter().flatten() {
                    mtls.visit_sources(visit);
                }
            }
        }
    }
}

impl Serialize for BackendConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = match self {
            Self::Process(config) => serde_json::to_value(config),
            Self::Container(config) => serde_json::to_value(config),
            Self::AciStandbyPool(config) => serde_json::to_value(config),
            Self::E2b(config) => serde_json::to_value(config),
            Self::FlyMachines(config) => serde_json::to_value(config),
            Self::SelfHosted(config) => serde_json::to_value(config),
            Self::Passthrough(config) => serde_json::to_value(config),
        };
        let mut map = Map::new();
        map.insert("tier".to_owned(), self.tier().as_str().into());
        if let Some((tag, value)) = self.second_tag() {
            map.insert(tag.to_owned(), value.into());
        }
        if let Value::Object(fields) = fields.map_err(ser::Error::custom)? {
            map.extend(fields);
        }
        map.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for BackendConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        fn read<T: DeserializeOwned, E: de::Error>(map: Map<String, Value>) -> Result<T, E> {
            T::deserialize(Value::Object(map)).map_err(E::custom)
        }
        let mut map = Map::deserialize(deserializer)?;
        let tier = Tier::deserialize(map.remove("tier").unwrap_or_default())
            .map_err(|_| de::Error::custom("`tier` is missing or unknown"))?;
        Ok(match tier {
            Tier::Process => Self::Process(read(map)?),
            Tier::Passthrough => Self::Passthrough(read(map)?),
            Tier::Container => {
                if map.get("runtime").and_then(Value::as_str) == Some("aci-standby-pool") {
                    map.remove("runtime");
                    Self::AciStandbyPool(read(map)?)
                } else {
                    Self::Container(read(map)?)
                }
            }
            Tier::Microvm => match map.remove("service").as_ref().and_then(Value::as_str) {
                Some("e2b") => Self::E2b(read(map)?),
                Some("fly-machines") => Self::FlyMachines(read(map)?),
                Some("self-hosted") => Self::SelfHosted(Box::new(read(map)?)),
                _ => return Err(de::Error::custom("`service` is missing or unknown")),
            },
        })
    }
}

impl JsonSchema for BackendConfig {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "BackendConfig".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let g = generator;
        json_schema!({
            "description": "Which backend, and how it is set up.",
            "oneOf": [
                tagged::<ProcessBackendConfig>(g, &[("tier", "process")]),
                {
                    "oneOf": [
                        tagged::<ContainerBackendConfig>(g, &[("tier", "container")]),
                        tagged::<AciStandbyPoolBackendConfig>(
                            g, &[("tier", "container"), ("runtime", "aci-standby-pool")],
                        ),
                    ]
                },
                {
                    "oneOf": [
                        tagged::<E2bBackendConfig>(g, &[("tier", "microvm"), ("service", "e2b")]),
                        tagged::<FlyMachinesBackendConfig>(
                            g, &[("tier", "microvm"), ("service", "fly-machines")],
                        ),
                        tagged::<SelfHostedBackendConfig>(
                            g, &[("tier", "microvm"), ("service", "self-hosted")],
                        ),
                    ]
                },
                tagged::<PassthroughBackendConfig>(g, &[("tier", "passthrough")]),
            ]
        })
    }
}

/// The schema of `T` with constant tags in front of its fields.
fn tagged<T: JsonSchema>(generator: &mut SchemaGenerator, tags: &[(&str, &str)]) -> Value {
    let mut schema = T::json_schema(generator).to_value();
    if let Some(object) = schema.as_object_mut() {
        let fields = object.remove("properties");
        let needed = object.remove("required");
        let mut properties: Map<String, Value> = tags
            .iter()
            .map(|(tag, value)| {
                (
                    (*tag).to_owned(),
                    serde_json::json!({"type": "string", "const": value}),
                )
            })
            .collect();
        let mut required: Vec<Value> = tags.iter().map(|(tag, _)| (*tag).into()).collect();
        if let Some(Value::Object(fields)) = fields {
            properties.extend(fields);
        }
        if let Some(Value::Array(needed)) = needed {
            required.extend(needed);
        }
        object.insert("properties".to_owned(), Value::Object(properties));
        object.insert("required".to_owned(), Value::Array(required));
    }
    schema
}
