package channel_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/channel"
)

// readers says of every field of the fact types who reads it: a function of this package or of turns, its agent. A field that nobody
// reads would be asked of every channel for nothing.
var readers = map[reflect.Type]map[string]string{
	reflect.TypeFor[channel.Facts](): {
		"Channel": "BuildContext", "Account": "BuildContext", "MessageID": "BuildContext", "MessageIDFull": "BuildContext",
		"From": "BuildContext", "Timestamp": "BuildContext", "Sender": "Evaluate", "Conversation": "Evaluate", "Route": "BuildContext",
		"Reply": "BuildContext", "Access": "Evaluate", "Message": "BuildContext", "Supplemental": "BuildContext", "Media": "BuildContext",
		"Trigger": "Evaluate", "Observing": "mentionGate",
	},
	reflect.TypeFor[channel.SenderFacts](): {
		"ID": "SenderFacts.Identity", "Name": "BuildContext", "Username": "BuildContext", "Tag": "BuildContext",
		"DisplayLabel": "BuildContext", "Roles": "SenderFacts.Identity", "IsBot": "botGate", "IsSelf": "selfGate",
	},
	reflect.TypeFor[channel.ConversationFacts](): {
		"Kind": "Evaluate", "ID": "BuildContext", "Label": "BuildContext", "SpaceID": "BuildContext", "ParentID": "BuildContext",
		"ThreadID": "BuildContext", "NativeChannelID": "BuildContext", "RoutePeer": "routeQuery",
	},
	reflect.TypeFor[channel.Peer](): {"Kind": "Rule.matches", "ID": "Rule.matches"},
	reflect.TypeFor[channel.RouteFacts](): {
		"AgentID": "BuildContext", "AccountID": "BuildContext", "RouteSessionKey": "BuildContext", "DispatchSessionKey": "BuildContext",
		"PersistedSessionKey": "pass.write", "ParentSessionKey": "BuildContext", "ModelParentSessionKey": "BuildContext",
		"MainSessionKey": "pass.write", "CreateIfMissing": "pass.write",
	},
	reflect.TypeFor[channel.ReplyPlanFacts](): {
		"To": "BuildContext", "OriginatingTo": "BuildContext", "NativeChannelID": "BuildContext", "ReplyTarget": "ReplyPlanFacts.Target",
		"DeliveryTarget": "ReplyPlanFacts.Target", "ReplyToID": "",
		"MessageThreadID": "BuildContext", "ThreadParentID": "BuildContext", "Mode": "newDeliveries",
	},
	reflect.TypeFor[channel.AccessFacts](): {
		"DM": "senderGate", "Group": "senderGate", "Commands": "commandGate", "Mentions": "mentionGate", "AllowBots": "botGate",
		"Visibility": "BuildContext", "Sources": "source",
	},
	reflect.TypeFor[channel.DMFacts](): {"Policy": "senderGate", "Sender": "senderGate", "Paired": "senderGate", "AllowFrom": "senderGate"},
	reflect.TypeFor[channel.GroupFacts](): {
		"Policy": "groupGate", "RouteAllowed": "routeGate", "Sender": "groupGate", "AllowFrom": "groupGate", "RequireMention": "mentionGate",
		"Unmentioned": "unmentioned",
	},
	reflect.TypeFor[channel.CommandFacts](): {"Mode": "commandGate", "Authorizers": "roleOf", "Known": "commandGate"},
	reflect.TypeFor[channel.Authorizer]():   {"Name": "authorizer", "Role": "roleOf", "Configured": "roleOf", "Allowed": "roleOf"},
	reflect.TypeFor[channel.MentionFacts](): {
		"CanDetect": "mentionGate", "WasMentioned": "addressedBy", "HasAnyMention": "Evaluate", "Implicit": "addressedBy",
		"AllowedImplicit": "addressedBy",
	},
	reflect.TypeFor[channel.MessageFacts](): {
		"RawBody": "BuildContext", "Body": "BuildContext", "BodyForAgent": "BuildContext", "CommandBody": "commandGate",
		"EnvelopeFrom": "Recording.sender", "SenderLabel": "Recording.sender", "Preview": "pass.tell", "InboundHistory": "BuildContext",
	},
	reflect.TypeFor[channel.HistoryEntry](): {
		"Seq": "Window.Consume", "Sender": "cleanHistory", "Body": "cleanHistory", "Time": "defaultRow", "MessageID": "Window.Forget",
		"Media": "cleanHistory",
	},
	reflect.TypeFor[channel.SupplementalFacts](): {
		"Quote": "SupplementalFacts.Visible", "Forwarded": "BuildContext", "Thread": "SupplementalFacts.Visible",
		"Untrusted": "BuildContext", "GroupSystemPrompt": "BuildContext",
	},
	reflect.TypeFor[channel.Quote](): {
		"ID": "TurnContext.quote", "FullID": "TurnContext.quote", "Body": "TurnContext.quote", "Sender": "TurnContext.quote",
		"SenderAllowed": "SupplementalFacts.Visible", "IsExternal": "SupplementalFacts.Visible", "IsQuote": "TurnContext.quote",
		"IsSelf": "SupplementalFacts.Visible", "Media": "TurnContext.quote", "Chain": "SupplementalFacts.Visible",
	},
	reflect.TypeFor[channel.Forwarded](): {
		"From": "BuildContext", "FromType": "BuildContext", "FromID": "BuildContext", "Date": "BuildContext",
		"SenderAllowed": "SupplementalFacts.hidesMessage",
	},
	reflect.TypeFor[channel.Thread](): {
		"ID": "BuildContext", "StarterBody": "BuildContext", "HistoryBody": "BuildContext", "Label": "BuildContext",
		"ParentSessionKey": "BuildContext", "ModelParentSessionKey": "BuildContext", "SenderAllowed": "SupplementalFacts.Visible",
	},
	reflect.TypeFor[channel.Untrusted](): {"Kind": "BuildContext", "Text": "BuildContext"},
	reflect.TypeFor[channel.MediaFact](): {
		"Path": "TurnContext.MediaPaths", "URL": "TurnContext.MediaURLs", "ContentType": "TurnContext.MediaTypes", "Kind": "Agent.media",
		"MessageID": "MediaFacts", "Transcribed": "TurnContext.MediaTranscribedIndexes", "Size": "MediaFacts", "Width": "MediaFacts",
		"Height": "MediaFacts", "Duration": "MediaFacts",
	},
	reflect.TypeFor[channel.Input](): {
		"ID": "pass.key", "Timestamp": "pass.unanswered", "Synthetic": "pass.key", "RawText": "MergeInputs", "TextForAgent": "Input.text",
		"TextForCommands": "MergeInputs", "ConversationID": "pass.key", "ThreadID": "pass.key", "SenderID": "gatherer.join",
		"GroupID": "gatherer.join", "Raw": "", "HasMedia": "MergeInputs", "Parts": "",
	},
	reflect.TypeFor[channel.EventClass](): {
		"Kind": "pass.preflightStage", "CanStartAgentTurn": "pass.classify", "RequiresImmediateAck": "pass.classify",
	},
	reflect.TypeFor[channel.Preflight](): {
		"Admission": "pass.preflightStage", "Access": "pass.unanswered", "Message": "pass.unanswered", "Supplemental": "pass.unanswered",
		"Media": "pass.unanswered", "History": "pass.unanswered",
	},
	reflect.TypeFor[channel.HistoryHint](): {
		"Key": "pass.recording", "Limit": "pass.recording", "MediaLimit": "pass.recording", "ShouldRecord": "pass.recording",
		"RecordOnDrop": "pass.unanswered", "Sender": "pass.unanswered", "Conversation": "pass.unanswered", "LoadMedia": "pass.recording",
	},
}

// Section 13: every field has a reader.
func TestEveryFieldOfTheFactsHasAReader(t *testing.T) {
	reads := map[string]map[string]bool{} // by function: the fields that it selects
	for _, folder := range []string{".", "turns"} {
		readsOf(t, folder, reads)
	}
	for of, fields := range readers {
		for field := range of.Fields() {
			field := field.Name
			reader, ok := fields[field]
			switch {
			case !ok:
				t.Errorf("%s.%s has no reader", of.Name(), field)
			case reader == "": // for the adapter that set it
			case reads[reader] == nil:
				t.Errorf("%s.%s: there is no function %s", of.Name(), field, reader)
			case !reads[reader][field]:
				t.Errorf("%s.%s: %s does not read it", of.Name(), field, reader)
			}
		}
		for field := range fields {
			if _, ok := of.FieldByName(field); !ok {
				t.Errorf("%s has no field %s", of.Name(), field)
			}
		}
	}
}

// readsOf finds which names each function of a package selects, but to set them.
func readsOf(t *testing.T, folder string, reads map[string]map[string]bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			set, selected := map[ast.Expr]bool{}, map[string]bool{}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					for _, left := range n.Lhs {
						set[left] = true
					}
				case *ast.SelectorExpr:
					if !set[n] {
						selected[n.Sel.Name] = true
					}
				}
				return true
			})
			reads[nameOf(f)] = selected
		}
	}
}

// nameOf is the name of a function, behind that of its receiver's type.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if p, ok := of.(*ast.StarExpr); ok {
		of = p.X
	}
	if p, ok := of.(*ast.IndexExpr); ok {
		of = p.X
	}
	id, ok := of.(*ast.Ident)
	if !ok {
		return f.Name.Name
	}
	return id.Name + "." + f.Name.Name
}
