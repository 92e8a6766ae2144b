package main

import (
	"cmp"
	_ "embed"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manual has the texts of a command or action.
type manual struct {
	args     string // such as "SESSION [FILE]"; see checkArgs
	summary  string // for the list of commands or actions
	about    string
	examples string
	flags    string // the names of the flags to show without --all
}

// commonFlags is the annotation of a command with [manual.flags].
const commonFlags = "flags"

//go:embed help.txt
var helpText string

// manuals has the manual of each command by its path.
var manuals = readManuals(helpText)

// readManuals reads help.txt. A manual begins with a line "=== path :: args :: summary", and its sections with lines such as "--- examples".
func readManuals(text string) map[string]manual {
	all := map[string]manual{}
	for entry := range strings.SplitSeq(strings.TrimPrefix(text, "=== "), "\n=== ") {
		head, about, _ := strings.Cut(entry, "\n")
		parts := strings.Split(head, " :: ")
		sections := map[string]string{}
		for section := range strings.SplitSeq("about\n"+about, "--- ") {
			name, text, _ := strings.Cut(section, "\n")
			sections[name] = strings.Trim(text, "\n")
		}
		summary := parts[2]
		all[parts[0]] = manual{
			args: parts[1], summary: summary, about: cmp.Or(sections["about"], strings.ToUpper(summary[:1])+summary[1:]+"."),
			examples: indent(sections["examples"]), flags: sections["flags"],
		}
	}
	return all
}

func indent(text string) string {
	if text == "" {
		return ""
	}
	return "  " + strings.ReplaceAll(text, "\n", "\n  ")
}

// setUpHelp makes the help of all commands: without --all, it has only the flags of their manuals.
func setUpHelp(root *cobra.Command) {
	root.PersistentFlags().Bool("all", false, "explain all flags")
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "FlagUsages", "FlagUsagesWrapped 80"))
	standard := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		shown := append(strings.Fields(cmd.Annotations[commonFlags]), "all", "help")
		cmd.InheritedFlags() // adds the flags of the commands above to Flags
		all, _ := cmd.Flags().GetBool("all")
		cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = f.Hidden || !all && !slices.Contains(shown, f.Name) })
		standard(cmd, args)
	})
	help := newCommand("help", func(words []string) error {
		cmd, rest, err := root.Find(words)
		if err != nil || len(rest) > 0 && cmd.HasSubCommands() {
			return unknownCommand(cmd, append(rest, words...)[0])
		}
		cmd.InitDefaultHelpFlag()
		return cmd.Help()
	})
	help.Args = cobra.ArbitraryArgs
	root.SetHelpCommand(help)
}
