"""The usual ways of client packages to a typed answer, against a server:  schemas.py BASE_URL KEY [NAME...]

Prints a line for each way: "ok NAME", "not ok NAME: why", or "skip NAME: why" where the package is not installed.  Every way has to end with a valid
object, whatever the model knows; the packages' own repetitions of a failed answer are switched off where that can be done.  Ways that send no schema
(JSON modes) can promise no more than an object.
"""
import json
import os
import subprocess
import sys
import tempfile

base, key, wanted = sys.argv[1], sys.argv[2], sys.argv[3:]
os.environ.update(OPENAI_API_KEY=key, OPENAI_BASE_URL=base, OPENAI_AGENTS_DISABLE_TRACING="1", ANONYMIZED_TELEMETRY="0")
QUESTION = "Otto is 41 and lives in Rome."
MODEL = "demo"


def person():
    from pydantic import BaseModel, Field

    class Person(BaseModel):
        name: str = Field(description="first name", max_length=40)
        age: int = Field(ge=0, le=150)
    return Person


def check(value, person):
    if not isinstance(value, person):
        raise ValueError(f"a {type(value).__name__}: {value!r}")


def client():
    import openai
    return openai.OpenAI(base_url=base, api_key=key, max_retries=0, timeout=120)


def of_pydantic_ai(output):
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    agent = Agent(OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=base, api_key=key)), output_type=output, retries=0)
    return agent.run_sync(QUESTION).output


def pydantic_ai():
    p = person()
    check(of_pydantic_ai(p), p)


def pydantic_ai_native():
    from pydantic_ai import NativeOutput
    p = person()
    check(of_pydantic_ai(NativeOutput(p)), p)


def of_instructor(mode):
    import instructor
    p = person()
    check(instructor.from_openai(client(), mode=getattr(instructor.Mode, mode)).chat.completions.create(
        model=MODEL, response_model=p, max_retries=0, messages=[{"role": "user", "content": QUESTION}]), p)


def instructor_tools():
    of_instructor("TOOLS")


def instructor_json_schema():
    of_instructor("JSON_SCHEMA")


def of_langchain(method):
    from langchain_openai import ChatOpenAI
    p = person()
    model = ChatOpenAI(model=MODEL, base_url=base, api_key=key, max_retries=0)
    ask = QUESTION + (" Answer in JSON with the keys \"name\" and \"age\"." if method == "json_mode" else "")
    value = model.with_structured_output(p if method != "json_mode" else None, method=method).invoke(ask)
    check(value, dict if method == "json_mode" else p)         # any object: this way has no schema


def langchain_function_calling():
    of_langchain("function_calling")


def langchain_json_schema():
    of_langchain("json_schema")


def langchain_json_mode():
    of_langchain("json_mode")


def llm_schema():
    import llm  # noqa: F401
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "extra-openai-models.yaml"), "w") as f:
            f.write(f"- model_id: here\n  model_name: {MODEL}\n  api_base: {base}\n  api_key_name: openai\n  supports_schema: true\n")
        done = subprocess.run([sys.executable, "-m", "llm", "-m", "here", "--no-stream", "--schema", "name, age int", QUESTION],
                              env={**os.environ, "LLM_USER_PATH": folder}, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise ValueError(done.stderr.strip())
    value = json.loads(done.stdout)
    if not isinstance(value["name"], str) or not isinstance(value["age"], int):
        raise ValueError(done.stdout)


def of_agents(model):
    import agents
    agents.set_tracing_disabled(True)
    p = person()
    agent = agents.Agent(name="Reader", instructions="You read what people write.", output_type=p, model=model)
    check(agents.Runner.run_sync(agent, QUESTION, max_turns=1).final_output, p)


def agents_chat():
    import agents
    import openai
    of_agents(agents.OpenAIChatCompletionsModel(model=MODEL, openai_client=openai.AsyncOpenAI(base_url=base, api_key=key, max_retries=0)))


def agents_responses():
    import agents
    import openai
    of_agents(agents.OpenAIResponsesModel(model=MODEL, openai_client=openai.AsyncOpenAI(base_url=base, api_key=key, max_retries=0)))


def agents_with_tools():
    import agents
    import openai

    @agents.function_tool
    def city_of(name: str) -> str:
        """Tells where somebody lives."""
        return "Rome"
    p = person()
    model = agents.OpenAIChatCompletionsModel(model=MODEL, openai_client=openai.AsyncOpenAI(base_url=base, api_key=key, max_retries=0))
    agent = agents.Agent(name="Reader", instructions="You read what people write.", output_type=p, model=model, tools=[city_of])
    check(agents.Runner.run_sync(agent, QUESTION, max_turns=8).final_output, p)


def outlines_openai():
    import outlines
    p = person()
    p.model_validate_json(outlines.from_openai(client(), MODEL)(QUESTION, p))


def openai_parse():
    p = person()
    check(client().chat.completions.parse(model=MODEL, response_format=p, messages=[{"role": "user", "content": QUESTION}]).choices[0].message.parsed, p)


def openai_responses():
    p = person()
    check(client().responses.parse(model=MODEL, text_format=p, input=QUESTION).output_parsed, p)


def smolagents():
    from smolagents import OpenAIServerModel, ToolCallingAgent, tool
    from smolagents.memory import ActionStep

    @tool
    def city_of(name: str) -> str:
        """Tells where somebody lives.

        Args:
            name: the first name
        """
        return "Rome"
    agent = ToolCallingAgent(tools=[city_of], model=OpenAIServerModel(model_id=MODEL, api_base=base, api_key=key), max_steps=4, verbosity_level=0)
    agent.run("Where does Otto live?")
    steps = [s for s in agent.memory.steps if isinstance(s, ActionStep)]
    wrong = [str(s.error) for s in steps if s.error and "max steps" not in str(s.error).lower()]
    if wrong or not any(s.tool_calls for s in steps):
        raise ValueError("; ".join(wrong) or "no call came")


WAYS = [openai_parse, openai_responses, pydantic_ai, pydantic_ai_native, instructor_tools, instructor_json_schema,
        langchain_function_calling, langchain_json_schema, langchain_json_mode, llm_schema, agents_chat, agents_responses,
        agents_with_tools, outlines_openai, smolagents]
for way in WAYS:
    if wanted and way.__name__ not in wanted:
        continue
    try:
        way()
        print("ok", way.__name__, flush=True)
    except ImportError as why:
        print(f"skip {way.__name__}: {why}", flush=True)
    except Exception as why:
        print(f"not ok {way.__name__}: {type(why).__name__}: {' '.join(str(why).split())[:600]}", flush=True)
