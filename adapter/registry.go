package adapter

// Provider gives models by name.
type Provider interface {
	// Model returns the model of this name; an error where the provider cannot have it.
	Model(name string) (Model, error)
	// Names lists the models that are configured, without the provider's prefix; it may be empty.
	Names() []string
}

// Registry finds models by "provider:name". It is safe for concurrent use once built.
type Registry struct {
	Timeouts Timeouts
	Retries  Retries
	Default  string // used for the name ""
	// unexported: providers
	providers map[string]Provider
}

// Register adds a provider under its prefix.
func (r *Registry) Register(prefix string, p Provider) { panic("adapter: not built yet") }

// Model returns the model for "provider:name", with time limits and retries around it. Several names, separated by commas,
// are a chain: the next one is asked when one failed before anything was passed on. The error names what is known.
func (r *Registry) Model(name string) (Model, error) { panic("adapter: not built yet") }

// Names lists all configured models as "provider:name", sorted.
func (r *Registry) Names() []string { panic("adapter: not built yet") }
