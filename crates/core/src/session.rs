//! Who has the say over a session, and what is known of a run.

use alloc::string::String;

words! {
    /// The authority of a session. New sessions start as
    /// [`RuntimeEvents`](Authority::RuntimeEvents); imported ones pass through
    /// [`Preparing`](Authority::Preparing), by compare-and-swap only.
    pub closed enum Authority {
        /// Being imported: hidden, for the importer alone.
        Preparing = "preparing",
        /// Backed by its events.
        RuntimeEvents = "runtime_events",
        /// Could not be imported; holds diagnostics only.
        Rejected = "rejected",
    }
}

impl Authority {
    /// Whether a session may pass from one authority to another.
    pub fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Preparing, Self::RuntimeEvents | Self::Rejected)
                | (Self::Rejected, Self::Preparing)
        )
    }
}

object! {
    /// The operational header of a run: a projection of its opening, its later
    /// events and its end, with the members of Maka's run headers.
    pub struct AgentRunHeader {
        /// The run.
        run_id: crate::RunId = "runId",
        /// The session.
        session_id: crate::SessionId = "sessionId",
        /// The turn.
        turn_id: crate::TurnId = "turnId",
        /// The state of the run.
        status: RunStatus = "status",
        /// The kind of backend.
        backend_kind: String = "backendKind",
        /// The connection to the provider.
        llm_connection_slug: String = "llmConnectionSlug",
        /// The model.
        model_id: String = "modelId",
        /// The working directory.
        cwd: String = "cwd",
        /// The permission mode.
        permission_mode: String = "permissionMode",
        /// When it began, in milliseconds since 1970.
        created_at: crate::Number = "createdAt",
        /// When it last changed.
        updated_at: crate::Number = "updatedAt",
        /// The execution spine.
        invocation_id: Option<crate::InvocationId> = "invocationId",
        /// When it ended.
        completed_at: Option<crate::Number> = "completedAt",
        /// The run that started it as a child.
        parent_run_id: Option<String> = "parentRunId",
        /// The run it resumes.
        resumed_from_run_id: Option<String> = "resumedFromRunId",
        /// The run it retries.
        retried_from_run_id: Option<String> = "retriedFromRunId",
        /// The agent.
        agent_id: Option<String> = "agentId",
        /// The agent's name.
        agent_name: Option<String> = "agentName",
        /// The turn of its parent.
        parent_turn_id: Option<String> = "parentTurnId",
        /// The turn it retries.
        retried_from_turn_id: Option<String> = "retriedFromTurnId",
        /// The turn it regenerates.
        regenerated_from_turn_id: Option<String> = "regeneratedFromTurnId",
        /// The turn it branches from.
        branch_of_turn_id: Option<String> = "branchOfTurnId",
        /// The session it descends from.
        parent_session_id: Option<String> = "parentSessionId",
        /// The workspace.
        workspace_identity: Option<crate::Json> = "workspaceIdentity",
        /// What it continues.
        continuation_source: Option<crate::Json> = "continuationSource",
        /// The scheduled task that triggered it.
        scheduled_task_id: Option<String> = "scheduledTaskId",
        /// The automation that triggered it.
        legacy_automation_id: Option<String> = "legacyAutomationId",
        /// The goal that triggered it.
        goal_id: Option<String> = "goalId",
        /// The wake of an agent graph that triggered it.
        agent_graph_wake_id: Option<String> = "agentGraphWakeId",
        /// The attempt of that wake.
        agent_graph_wake_attempt_id: Option<String> = "agentGraphWakeAttemptId",
        /// The kind of root execution.
        root_execution_kind: Option<String> = "rootExecutionKind",
        /// Why it failed.
        failure_class: Option<String> = "failureClass",
        /// Why it failed, in words.
        failure_message: Option<String> = "failureMessage",
        /// Who stopped it.
        abort_source: Option<String> = "abortSource",
        /// Why its trace could not be written.
        trace_write_error: Option<String> = "traceWriteError",
        /// How it works with others.
        collaboration_mode: Option<String> = "collaborationMode",
        /// How it is orchestrated.
        orchestration_mode: Option<String> = "orchestrationMode",
        /// What orchestrates it.
        orchestration_source: Option<String> = "orchestrationSource",
        /// Whether it may start a swarm.
        agent_swarm_authorization: Option<crate::Json> = "agentSwarmAuthorization",
        /// Which tools it has.
        tool_mode: Option<String> = "toolMode",
        /// What it is composed of.
        run_composition: Option<crate::Json> = "runComposition",
    }
}

words! {
    /// The state of a run.
    pub open enum RunStatus {
        /// It exists.
        Created = "created",
        /// It works.
        Running = "running",
        /// It waits for the person.
        WaitingForUser = "waiting_for_user",
        /// It ended as intended.
        Completed = "completed",
        /// It ended by a failure.
        Failed = "failed",
        /// It was stopped.
        Cancelled = "cancelled",
    }
}
