"""`kernelagent mcp`: a run's questions as tools of the Model Context Protocol, over stdin and stdout.

The SDK is imported here only, and only by that command; the run itself knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from kernelagent.cli.agent_run import AgentRun, Finished, Submitted, error_text
from kernelagent.domain.errors import EnvironmentFault, KernelAgentError
from kernelagent.domain.replies.tool_calls import ToolCall
from kernelagent.domain.replies.tool_registry import TOOLS, Tool

if TYPE_CHECKING:
    from mcp.server import MCPServer

T = TypeVar("T")
MISSING = (
    "the agent interface needs the MCP SDK, which is not installed; install the extra: "
    "pip install -e '.[mcp]'"
)
INSTRUCTIONS = """\
You optimize a PyTorch module with Triton kernels. Call read_problem first. Write a complete Python
file, ask the tools that spend no turn (check and others) where that helps, and hand it to submit_candidate: it is
compiled, verified against a float64 reference, timed and profiled, and you get the findings. React to
them and submit again. Judging may take minutes: where your calls may not, hand in with wait=false and ask await_turn; finish takes wait=false too, and has the result when it is called once more. Each submission is a turn of a budget. Call finish when you are done: the best of all turns is judged once more and written out."""
_ARGUMENTS: dict[str, tuple[type, str]] = {
    "code": (str, "The complete Python file that defines ModelNew."),
    "reasoning": (str, "One or two sentences: what you change and why."),
    "turn": (int, "The turn's number, as list_history has it."),
    "why": (str, "One sentence for the report: why you stop."),
    "wait": (
        bool,
        "False: come back at once; await_turn with the turn's number, or finish once more, has the answer. True (default): wait for it.",
    ),
}
"""What each argument of a tool is, for the client."""
RESOURCES: tuple[tuple[str, str, Callable[[AgentRun], str]], ...] = (
    (
        "problem",
        "The task of the turn that waits: what read_problem answers.",
        AgentRun.problem,
    ),
    ("history", "The turns so far, one line each.", AgentRun.history),
    (
        "report",
        "The report in Markdown, as far as the run has come.",
        AgentRun.report,
    ),
)
"""What a client may read besides calling tools, each at `kernelagent://NAME`: name, description, what answers."""
OPTIMIZE = "optimize"
"""The prompt's name: what a person picks in their client to set the agent to work."""
_TELL_S = 3.0
"""How often a waiting client is told what is being done."""


def serve(run: AgentRun) -> None:
    """Speak MCP on stdin and stdout until the client goes away; raises `EnvironmentFault` without the SDK."""
    server = server_for(run)
    run.start()
    server.run("stdio")


def server_for(run: AgentRun) -> MCPServer[Any]:
    """The tools over `run`; every one waits in a thread, so that the server stays able to answer."""
    try:
        import anyio
        from anyio import to_thread
        from mcp.server import MCPServer
        from mcp.server.mcpserver import Context
        from mcp.server.mcpserver.exceptions import ToolError
        from pydantic import Field
    except ImportError as error:
        raise EnvironmentFault(MISSING) from error

    async def waiting(ask: Callable[[], T], ctx: Any) -> T:
        done = anyio.Event()

        async def tell() -> None:
            waited = 0.0
            while True:
                with anyio.move_on_after(_TELL_S):
                    await done.wait()
                    return
                waited += _TELL_S
                await ctx.report_progress(waited, None, run.doing)

        result: list[T] = []
        failed: list[KernelAgentError] = []
        async with anyio.create_task_group() as group:
            group.start_soon(tell)
            try:
                result.append(await to_thread.run_sync(ask, abandon_on_cancel=True))
            except KernelAgentError as error:
                # Raised below: a task group would wrap it into a group of one.
                failed.append(error)
            done.set()
        if failed:
            raise ToolError(error_text(failed[0]))
        return result[0]

    async def read_problem(ctx: Any) -> str:
        """Read the task: the module's source, shapes, device, contract, and what is asked now."""
        return await waiting(run.problem, ctx)

    async def submit_candidate(
        code: str,
        ctx: Any,
        reasoning: str = "",
        wait: bool = True,
    ) -> Submitted:
        """Have a candidate judged; returns the verdict, the findings and the profile in words."""
        return await waiting(lambda: run.submit(code, reasoning, wait=wait), ctx)

    async def await_turn(
        turn: int,
        ctx: Any,
    ) -> Submitted:
        """Wait for the verdict of a turn that was handed in without waiting, or whose call was cancelled."""
        return await waiting(lambda: run.awaited(turn), ctx)

    async def list_history(ctx: Any) -> str:
        """List the turns so far, one line each."""
        return await waiting(run.history, ctx)

    async def show_turn(
        turn: int,
        ctx: Any,
    ) -> str:
        """Show one turn: its code and its findings."""
        return await waiting(lambda: run.turn(turn), ctx)

    async def finish(
        ctx: Any,
        why: str = "",
        wait: bool = True,
    ) -> Finished:
        """End the run: the best candidate is judged again with fresh inputs and written out."""
        return await waiting(lambda: run.finish(why, wait=wait), ctx)

    server: MCPServer[Any] = MCPServer("kernelagent", instructions=INSTRUCTIONS)
    for tool in (
        read_problem,
        submit_candidate,
        await_turn,
        list_history,
        show_turn,
        finish,
    ):
        # The SDK hands its context to the parameter of this type, and asks the client for the others.
        tool.__annotations__["ctx"] = Context
        for name in tool.__annotations__.keys() & _ARGUMENTS.keys():
            kind, description = _ARGUMENTS[name]
            tool.__annotations__[name] = Annotated[kind, Field(description=description)]
        server.add_tool(tool)
    for beside in TOOLS.values():

        async def ask(ctx: Any, _name: str = beside.name, **given: Any) -> str:
            named = {name: value for name, value in given.items() if value is not None}
            return await waiting(lambda: run.call(ToolCall(_name, named)), ctx)

        _as_declared(ask, beside, Context)
        server.add_tool(ask, beside.name, description=beside.description)
    for name, description, read in RESOURCES:
        server.resource(
            f"kernelagent://{name}", name=name, description=description, mime_type="text/markdown"
        )(partial(_read, run, read))
    server.prompt(OPTIMIZE, description="Set the agent to work on this problem.")(
        lambda: INSTRUCTIONS
    )
    return server


def _read(run: AgentRun, read: Callable[[AgentRun], str]) -> str:
    """What a resource holds; an error of the run is the text, as the SDK keeps its words from the client."""
    try:
        return read(run)
    except KernelAgentError as error:
        return error_text(error)


def _as_declared(ask: Any, tool: Tool, context: type) -> None:
    """Give a function the signature that the SDK makes the tool's schema from."""
    from pydantic import Field

    parameters = [Parameter("ctx", Parameter.POSITIONAL_OR_KEYWORD, annotation=context)]
    for argument in tool.arguments:
        kind: Any = argument.python if argument.required else argument.python | None
        described = Annotated[kind, Field(description=argument.description)]
        default = Parameter.empty if argument.required else None
        parameters.append(
            Parameter(argument.name, Parameter.KEYWORD_ONLY, default=default, annotation=described)
        )
    ask.__signature__ = Signature(parameters, return_annotation=str)
    ask.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": str}
