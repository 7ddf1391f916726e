//! `folio stats`: what a session holds, counted from its events and notes.
//!
//! With `--json` one line: `{"session_id","events","high_water","rows":{type:
//! n,…},"user_messages","assistant_messages","thinking_blocks","tool_calls",
//! "tool_results","tool_errors","orphan_tool_results",
//! "unanswered_tool_calls","turns":{"total","unprompted","completed","failed",
//! "aborted","open"},"usage":{"input","output","cache_read","cache_write",
//! "reasoning"},"inherited":{"events","user_messages","assistant_messages",
//! "tool_calls","usage":{…}},"compactions","chain"}`. `inherited` is what a fork
//! shares with the session that it was forked from: a part of every count but
//! `usage`, which is the session's own.

use crate::app::App;
use crate::failure::{Exit, Failure};
use crate::output::style;
use crate::select;
use crate::text::{Tokens, count, hex, number};
use folio_projector::{Stats, Usage};
use serde_json::{Value, json};

/// Runs the command.
pub async fn run(app: &mut App, session: &str) -> Result<Exit, Failure> {
    let store = app.reader()?;
    let info = select::session(&*store, session, app.out.json).await?;
    let stats = Stats::of(&*store, &info.id).await?;
    if app.out.json {
        app.out.line(&to_json(&stats).to_string())?;
        return Ok(Exit::Ok);
    }
    let head = app.out.paint(style::HEAD, &stats.session_id);
    app.out.line(&head)?;
    for (name, value) in facts(&stats) {
        app.out.line(&format!("  {name:<24}{value}"))?;
    }
    Ok(Exit::Ok)
}

fn facts(stats: &Stats) -> Vec<(&'static str, String)> {
    let turns = &stats.turns;
    let rows: Vec<String> = stats
        .rows
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(kind, count)| format!("{} {kind}", number(*count)))
        .collect();
    let mut facts = vec![
        ("events", number(stats.events)),
        ("rows", rows.join(", ")),
        ("user messages", number(stats.user_messages)),
        ("assistant messages", number(stats.assistant_messages)),
        ("thinking blocks", number(stats.thinking_blocks)),
        (
            "tool calls",
            format!(
                "{}, {} unanswered",
                number(stats.tool_calls),
                number(stats.unanswered_tool_calls)
            ),
        ),
        (
            "tool results",
            format!(
                "{}, {} failed, {} without a call",
                number(stats.tool_results),
                number(stats.tool_errors),
                number(stats.orphan_tool_results)
            ),
        ),
        (
            "turns",
            format!(
                "{} and {} unprompted: {} completed, {} failed, {} aborted, {} open",
                number(turns.total),
                number(turns.unprompted),
                number(turns.completed),
                number(turns.failed),
                number(turns.aborted),
                number(turns.open)
            ),
        ),
        ("tokens", tokens(&stats.usage).to_string()),
        ("compactions", number(stats.compactions)),
        ("chain", hex(&stats.chain)),
    ];
    let inherited = &stats.inherited;
    if inherited.events > 0 {
        facts.push((
            "of these inherited",
            format!(
                "{}, {}, {}, {}",
                count(inherited.events, "event"),
                count(inherited.user_messages, "user message"),
                count(inherited.assistant_messages, "assistant message"),
                count(inherited.tool_calls, "tool call"),
            ),
        ));
        let usage = tokens(&inherited.usage).to_string();
        facts.push(("inherited tokens", format!("{usage}; not in the above")));
    }
    facts
}

/// The buckets as a prompt and an answer.
fn tokens(usage: &Usage) -> Tokens {
    let parts = [usage.input, usage.cache_read, usage.cache_write];
    Tokens {
        prompt: parts.into_iter().fold(0, u64::saturating_add),
        new: usage.input,
        cached: usage.cache_read,
        kept: usage.cache_write,
        answer: usage.output,
        reasoning: usage.reasoning,
    }
}

fn to_json(stats: &Stats) -> Value {
    let (turns, inherited) = (&stats.turns, &stats.inherited);
    json!({
        "session_id": stats.session_id,
        "events": stats.events,
        "high_water": stats.high_water,
        "rows": stats.rows,
        "user_messages": stats.user_messages,
        "assistant_messages": stats.assistant_messages,
        "thinking_blocks": stats.thinking_blocks,
        "tool_calls": stats.tool_calls,
        "tool_results": stats.tool_results,
        "tool_errors": stats.tool_errors,
        "orphan_tool_results": stats.orphan_tool_results,
        "unanswered_tool_calls": stats.unanswered_tool_calls,
        "turns": {
            "total": turns.total,
            "unprompted": turns.unprompted,
            "completed": turns.completed,
            "failed": turns.failed,
            "aborted": turns.aborted,
            "open": turns.open,
        },
        "usage": usage(&stats.usage),
        "inherited": {
            "events": inherited.events,
            "user_messages": inherited.user_messages,
            "assistant_messages": inherited.assistant_messages,
            "tool_calls": inherited.tool_calls,
            "usage": usage(&inherited.usage),
        },
        "compactions": stats.compactions,
        "chain": hex(&stats.chain),
    })
}

fn usage(usage: &Usage) -> Value {
    json!({
        "input": usage.input,
        "output": usage.output,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "reasoning": usage.reasoning,
    })
}
