package config

import (
	"regexp"
	"time"

	"github.com/lingserve/lingserve/internal/yaml"
)

// MCPServer is a server whose tools the agents can use (Model Context Protocol): a program that is started, or an address.
type MCPServer struct {
	Name          string // the second part of its tools' names: mcp.NAME.…
	Command       string
	Args          []string
	Env           []string // names of variables that the program gets
	URL           string
	Authorization Secret // header that goes with each request to URL
	Timeout       time.Duration
}

// mcpServer is where the settings of a server go.
func (c *Config) mcpServer(name string) *MCPServer {
	return element(&c.MCP, func(e *MCPServer) bool { return e.Name == name }, MCPServer{Name: name})
}

var mcpNames = named{
	"mcp", "servers", "an MCP server", regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`), "at most 32 lower-case letters, digits and -", "search: {url: …}", mcpSettings,
}

// mcpSettings are the settings of one server. They stand in the file alone.
func mcpSettings(name string) []Setting {
	return bindInFile("mcp."+name+".", func(c *Config) *MCPServer { return c.mcpServer(name) }, mcpTable)
}

var mcpTable = []Setting{
	{Key: "command", Help: "program to start, without a shell; it speaks MCP on standard input and output"},
	{Key: "args", Help: "its arguments"},
	{Key: "env", Help: "names of variables that it gets beside PATH, HOME and the like"},
	{Key: "url", check: unlessEmpty(checkURL), Help: "address of a server with streamable HTTP, instead of command"},
	{Key: "authorization", Secret: true, Help: "header Authorization, such as \"Bearer …\""},
	{Key: "timeout", Default: "1m", Min: "1ms", Help: "timeout of a tool call"},
}

// checkMCP refuses a server that is no program and no address, or both.
func (r *fileReader) checkMCP(at *yaml.Node, key string) {
	has := func(field string) bool { return r.values[key+"."+field] != nil }
	switch {
	case has("command") && has("url"):
		r.Errorf(at, key, "command and url do not go together; remove one of them")
	case has("url") && (has("args") || has("env")):
		r.Errorf(at, key, "args and env need a command; add command, or remove them")
	case has("command") && has("authorization"):
		r.Errorf(at, key, "authorization needs a url; add url, or remove it")
	case !has("command") && !has("url"):
		r.Errorf(at, key, "expected a command or a url")
	}
}
