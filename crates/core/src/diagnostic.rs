//! What may be odd about a session, by stable code.

words! {
    /// The codes that items and rows can raise. Every one of them is soft: the
    /// event stands in the ledger and everything around it is intact. Damage
    /// that hides content is an error of the read, never one of these.
    pub closed enum Code {
        /// A chunk came after its lane was settled; it has no effect.
        LatePartial = "late_partial",
        /// A call repeats an unanswered call of the same step.
        DuplicateCall = "duplicate_call",
        /// A result could answer several open calls.
        AmbiguousToolPairing = "ambiguous_tool_pairing",
        /// A result answers no call.
        OrphanToolResult = "orphan_tool_result",
        /// No model is known for a message.
        UnknownModel = "unknown_model",
        /// An event of a kind that this build does not know.
        UnsupportedEvent = "unsupported_event",
    }
}
