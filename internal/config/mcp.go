package config

import (
	"regexp"

	"github.com/lingserve/lingserve/internal/yaml"
)

// mcpServer is where the settings of a server go.
func (c *Config) mcpServer(name string) *MCPServer {
	return element(&c.MCP, func(e *MCPServer) bool { return e.Name == name }, MCPServer{Name: name})
}

var mcpNames = named{
	"mcp", "servers", "an MCP server", regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`), "at most 32 lower-case letters, digits and -", "search: {url: …}", mcpSettings,
}

func mcpSettings(name string) []Setting {
	return inFile(settingsOf([]string{"mcp", name}, func(c *Config) *MCPServer { return c.mcpServer(name) }))
}

// checkMCP refuses a server that is no program and no address, or both.
func (l *loader) checkMCP(at *yaml.Node, key string) {
	has := func(field string) bool { return l.c.sources[key+"."+field].Kind == File }
	switch {
	case has("command") && has("url"):
		l.Errorf(at, key, "command and url do not go together; remove one of them")
	case has("url") && (has("args") || has("env")):
		l.Errorf(at, key, "args and env need a command; add command, or remove them")
	case has("command") && has("authorization"):
		l.Errorf(at, key, "authorization needs a url; add url, or remove it")
	case !has("command") && !has("url"):
		l.Errorf(at, key, "expected a command or a url")
	}
}
