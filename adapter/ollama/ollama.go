// Package ollama speaks the native chat format of Ollama: POST /api/chat, answered by a JSON object on each line.
//
// Ollama decides by itself: how large the context is (a prompt that does not fit is cut by it, from the
// oldest message), how long a model stays in memory, and, unless the options say it, whether a model thinks. A model that is not in memory is loaded by the
// first request, which takes a minute at times; the limit for the first token (Timeouts.FirstToken) covers that wait, so raise
// it where large models are loaded from slow disks. While a model writes the arguments of a tool call Ollama is silent, up to the
// end of the call; the limit between tokens (Timeouts.Idle) covers that.
//
// A JSON Schema holds a model to it from the first token on, and so would keep it from calling tools. Beside tools it is not
// sent: then the prompt alone asks for the form.
//
// # Guarantees
//   - A stream without the line that says it is done is an error, never a short answer.
//   - An error that Ollama sends, as a status or as a line in the middle, is an error here, and its text stays out of ours.
//   - Leaving the loop or ending the context closes the stream at once; Ollama then stops to generate.
//   - One line, one chunk for its text and one for each tool call: nothing waits for more than what it is part of.
package ollama

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/ollama/host"
	"github.com/lingserve/lingserve/adapter/wire"
)

// Options are the settings of a provider: the default of Prefix is "ollama"; BaseURL is where Ollama answers, in any of the forms that
// [host.Parse] takes, default http://127.0.0.1:11434; Key is sent as a bearer token, for ollama.com and for proxies: Ollama itself asks for
// none; the default of KeyName is OLLAMA_API_KEY; MaxEvent is the length of a line.
type Options = wire.Options

const defaultPrefix = "ollama"

// modelName is a name as Ollama shows it. It is part of a command to run, so it must not be able to be more than a name.
var modelName = regexp.MustCompile(`^[A-Za-z0-9._:/@][A-Za-z0-9._:/@-]{0,255}$`)

// New returns a provider. Errors: a BaseURL that is no address.
func New(o Options) (adapter.Provider, error) {
	o.Prefix, o.KeyName = cmp.Or(o.Prefix, defaultPrefix), cmp.Or(o.KeyName, "OLLAMA_API_KEY")
	base, err := host.Parse(o.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("the base URL of %s: %w", o.Prefix, err)
	}
	base.Path = strings.TrimSuffix(base.Path, "/api") // as some clients have it
	absent := "cannot connect to Ollama: start it with `ollama serve`, or set OLLAMA_HOST"
	if o.Prefix != defaultPrefix {
		absent = "cannot connect to Ollama (" + o.Prefix + "): start it with `ollama serve`, or check its base URL"
	}
	p := &provider{Server: wire.NewServer(o), chat: base.JoinPath("api", "chat").String(), tags: base.JoinPath("api", "tags").String()}
	p.Absent, p.Accept = absent, "application/x-ndjson"
	return p, nil
}

// provider is one Ollama. It is safe for concurrent use.
type provider struct {
	wire.Server
	chat, tags string // addresses
}

// Model returns the model of this name: "llama3.2", "llama3.2:3b", "hf.co/maker/model:Q4_K_M". Whether it has been pulled is only
// known to Ollama.
func (p *provider) Model(name string) (adapter.Model, error) {
	if name == "" {
		return nil, fmt.Errorf("expected a model's name after %q", p.Prefix+":")
	}
	if !modelName.MatchString(name) {
		return nil, errors.New("expected a name as `ollama list` shows it, of letters, digits and . _ - : / @")
	}
	return p.model(name), nil
}

func (p *provider) model(name string) *model {
	m := &model{p.Server, p.chat, name}
	m.Server.Explain = m.explainRefusal
	return m
}

// List asks which models have been pulled; they come sorted.
func (p *provider) List(ctx context.Context) ([]string, error) {
	models, _, err := p.model("").GetList(ctx, p.tags, "models")
	if err != nil {
		if e, ok := errors.AsType[*adapter.Error](err); ok && e.Status == http.StatusOK {
			e.Message += ": check that it is Ollama's address"
		}
		return nil, err
	}
	names := make([]string, 0, len(models))
	for _, m := range models {
		name := cmp.Or(m.Text("name"), m.Text("model"))
		if _, err := p.Model(name); err == nil { // what cannot be asked for is not offered
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// model is one model of a provider.
type model struct {
	wire.Server
	chat, name string
}

// Stream asks the model.
func (m *model) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return m.Answer(ctx, m.name, m.chat, &asking{model: m, req: &req}, m.read)
}

var _ interface {
	adapter.Provider
	adapter.Lister
} = (*provider)(nil)
