//! `policy`: what an egress policy says, whether a file holds one, and a running sandbox's new one.

use namzu_sandbox::egress::policy::Snapshot;
use namzu_sandbox::types::{EgressPolicy, SandboxId};
use namzu_sandbox::{Error, ErrorCode, Phase};
use serde_json::json;

use crate::args::{CheckArgs, ExplainArgs, PolicyArgs, PolicyVerb, SetArgs};
use crate::context::Context;
use crate::escape::Escaped;
use crate::failure::Failure;
use crate::keeper::{self, Answer, Change, Question};
use crate::settings;

/// The exit code for a host that is not let out.
const DENIED: u8 = 1;

pub(crate) async fn run(cx: &mut Context, args: &PolicyArgs) -> Result<u8, Failure> {
    match &args.verb {
        PolicyVerb::Explain(args) => explain(cx, args).await,
        PolicyVerb::Check(args) => check(cx, args),
        PolicyVerb::Set(args) => set(cx, args).await,
    }
}

async fn explain(cx: &mut Context, args: &ExplainArgs) -> Result<u8, Failure> {
    if args.host.contains('/') {
        return Err(Failure::Usage(
            "expected HOST or HOST:PORT, not a URL".to_owned(),
        ));
    }
    let answer = match &args.sandbox {
        Some(id) => of_sandbox(cx, id, &args.host).await?,
        None => {
            let policy = settings::policy(&args.outward, &Context::host())?.unwrap_or_default();
            let provider = cx.provider()?;
            let said = provider.explain(&policy, &args.host);
            cx.signals.unless(said).await?.into()
        }
    };
    if cx.out.json {
        cx.out.json(&answer)?;
    } else {
        cx.out.text(sentence(&args.host, &answer))?;
    }
    Ok(if answer.allowed { 0 } else { DENIED })
}

async fn of_sandbox(cx: &mut Context, id: &SandboxId, host: &str) -> Result<Answer, Failure> {
    let question = Question::Explain(host.to_owned());
    if let Some(answer) = cx.signals.unless(keeper::ask(id, &question)).await? {
        return Ok(answer);
    }
    let sandbox = cx.connect(id).await?;
    Ok(cx.signals.unless(sandbox.explain(host)).await?.into())
}

fn sentence(host: &str, answer: &Answer) -> String {
    let verdict = if answer.allowed { "allowed" } else { "denied" };
    let by = answer
        .rule
        .as_ref()
        .map_or_else(String::new, |rule| format!(" by {}", Escaped(rule)));
    format!(
        "{verdict}: {}{by}: {} ({})\n",
        Escaped(host),
        Escaped(&answer.text),
        Escaped(&answer.reason)
    )
}

fn check(cx: &Context, args: &CheckArgs) -> Result<u8, Failure> {
    let policy = settings::read_policy(&args.file, &Context::host())?;
    let rules = match policy {
        // Nobody knows what it will give.
        EgressPolicy::Resolver { .. } => None,
        _ => Some(compiled(args, &policy)?),
    };
    if cx.out.json {
        cx.out
            .json(&json!({ "kind": policy.kind(), "ports": rules }))?;
    } else {
        let name = args.file.display().to_string();
        cx.out.text(format_args!(
            "{} holds a policy: {}\n",
            cx.out.name(&name),
            policy.kind()
        ))?;
    }
    Ok(0)
}

/// The ports that it names.
fn compiled(args: &CheckArgs, policy: &EgressPolicy) -> Result<Vec<u16>, Error> {
    let snapshot = Snapshot::compile(policy, 1).map_err(|reasons| {
        Error::new(
            ErrorCode::ConfigInvalid,
            format!("`{}` holds no egress policy", args.file.display()),
        )
        .with_reasons(reasons)
        .during(Phase::Configure)
    })?;
    Ok(snapshot.ports())
}

async fn set(cx: &mut Context, args: &SetArgs) -> Result<u8, Failure> {
    let document = settings::policy_document(&args.outward, &Context::host())?;
    let question = Question::Set(document);
    let change: Option<Change> = cx.signals.unless(keeper::ask(&args.id, &question)).await?;
    let Some(change) = change else {
        // It may not be there at all.
        let sandbox = cx.connect(&args.id).await?;
        return Err(Error::new(
            ErrorCode::Unsupported,
            format!(
                "the network policy of sandbox `{}` cannot be changed: it has no keeper",
                sandbox.id()
            ),
        )
        .with_hint("one that is made by `run --detach` with --allow or --policy has")
        .into());
    };
    if cx.out.json {
        cx.out.json(&change)?;
    } else {
        let Change {
            generation,
            kept,
            cut,
        } = change;
        cx.out.text(format_args!(
            "generation {generation}: {kept} connections kept, {cut} cut\n"
        ))?;
    }
    Ok(0)
}
