package config

import "flag"

// Flags collects the settings that are given on a command line. Its zero value is ready.
type Flags struct {
	given map[string][]string // by key
}

// Bind makes a flag of every setting. Values are only collected; [Load] understands them, so that a wrong one is reported the
// same way wherever it stands.
func (f *Flags) Bind(set *flag.FlagSet) {
	f.given = map[string][]string{}
	for _, s := range Settings() {
		set.Var(&flagValue{f, s}, s.Flag(), s.Help)
	}
}

type flagValue struct {
	flags *Flags
	s     Setting
}

func (v *flagValue) String() string   { return "" }
func (v *flagValue) IsBoolFlag() bool { return v.s.IsBool() }

func (v *flagValue) Set(text string) error {
	v.flags.given[v.s.Key] = append(v.flags.given[v.s.Key], text)
	return nil
}
