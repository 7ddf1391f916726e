//! What persons, and the agents that ask sub-agents, write.

use super::super::record::{self, Class, Record};
use super::Translator;
use super::draft::Draft;
use super::make::{empty_text, foreign, set_origin, subagent_origin};
use super::runs::Side;
use folio_core::{Author, Content, Json, Role, TextContent, json};

impl Translator {
    pub(super) fn prompt(&mut self, record: &Record<'_>, agent: bool) {
        let text = record::text_of(record.content());
        let command = record.class == Class::SlashCommand;
        let root = if agent { "subagent" } else { "user" };
        self.open_turn(record, root, false);
        let mut draft = self.user_text(record.content(), &text, command);
        if agent {
            set_origin(&mut draft, &subagent_origin(record));
        }
        self.emit(Side::Main, draft);
    }

    pub(super) fn sidechain_prompt(&mut self, record: &Record<'_>) {
        if self.identifier.is_agent_file() {
            self.prompt(record, true);
            return;
        }
        let side = self.side(record);
        self.run(record, side);
        let text = record::text_of(record.content());
        let mut draft = self.user_text(record.content(), &text, false);
        set_origin(&mut draft, &subagent_origin(record));
        self.emit(side, draft);
    }

    pub(super) fn queued_prompt(&mut self, record: &Record<'_>) {
        let attachment = record.object.object("attachment").unwrap_or_default();
        let raw = attachment.get("prompt").unwrap_or("null");
        let side = self.side(record);
        self.run(record, side);
        let mut draft = self.user_text(raw, &record::text_of(raw), false);
        if let Some(Content::Text(text)) = &mut draft.content {
            text.steering = Some(true);
        }
        self.emit(side, draft);
    }

    pub(super) fn user_text(&self, raw: &str, text: &str, command: bool) -> Draft {
        let words = if command {
            record::command_words(text)
        } else {
            Some(record::own_words(text)).filter(|words| words != text.trim())
        };
        let mut content = TextContent {
            text: text.to_owned(),
            display_text: words.filter(|words| !words.is_empty()),
            ..empty_text()
        };
        if command {
            content.origin = Json::from_checked(r#"{"kind":"slash_command"}"#).ok();
        }
        let mut holds = Vec::new();
        if let Some(blocks) = record::other_blocks(raw) {
            for (at, block) in json::elements(blocks.as_str()).into_iter().enumerate() {
                holds.push((block.to_owned(), format!("content.blocks.{at}")));
            }
            content.unknown.set("blocks", blocks);
        }
        let author = if command { Author::Host } else { Author::User };
        let mut draft = Draft::new(Role::User, author, Some(Content::Text(content)));
        draft.refs.stored_message_id = Some(foreign(&self.cause.r));
        draft.holds = holds;
        if record::sole_text(raw).is_some() {
            draft = draft.holds_text(text, "content.text");
        }
        draft
    }
}
