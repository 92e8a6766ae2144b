package config

import (
	"strings"

	"github.com/spf13/pflag"
)

// Flags collects the settings that are given on a command line. Its zero value is ready.
type Flags struct {
	given map[string][]string // by key
}

// Bind makes a flag of every setting. Values are only collected; [Load] reads them, so that an invalid one is reported the
// same way in every source.
func (f *Flags) Bind(set *pflag.FlagSet) {
	f.given = map[string][]string{}
	for _, s := range Settings() {
		flag := &pflag.Flag{Name: s.Flag(), Shorthand: s.short, Usage: s.usage(), Value: &flagValue{f, s}}
		if s.IsBool() {
			flag.NoOptDefVal = "true"
		}
		// One provider is enough to explain the others, which have more than a hundred flags.
		flag.Hidden = s.path[0] == "providers" && s.path[1] != "openai"
		set.AddFlag(flag)
	}
}

// usage is the help of a setting with its default, and the variables of other programs that set it, too.
func (s Setting) usage() string {
	text := s.Help
	if s.Default != "" && s.Default != "false" {
		text += " (" + s.Default + ")"
	}
	if len(s.Env) > 0 {
		text += "; also " + strings.Join(s.Env, ", ")
	}
	return text
}

type flagValue struct {
	flags *Flags
	s     Setting
}

func (v *flagValue) String() string { return "" }

// Type implements [pflag.Value]. Help shows no other type.
func (v *flagValue) Type() string {
	if v.s.IsBool() {
		return "bool"
	}
	return ""
}

func (v *flagValue) Set(text string) error {
	v.flags.given[v.s.Key] = append(v.flags.given[v.s.Key], text)
	return nil
}
