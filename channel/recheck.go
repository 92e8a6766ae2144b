package channel

import (
	"context"
	"fmt"
)

// stillAllowed asks the gates route and sender again where the settings have changed since they were asked (CH-61): somebody who
// was let in is perhaps no longer. since is the generation of the settings then; nil is not known, so that the gates are asked.
func (k *Kernel) stillAllowed(ctx context.Context, channel, account string, o Origin, since *uint64) error {
	if k.Settings == nil || o.Sender.ID == "" { // nobody was let in: the server itself began
		return nil
	}
	f := Facts{Channel: channel, Account: account, Sender: o.Sender, Conversation: o.Conversation}
	policy := k.Settings.Policy(policyQuery(&f))
	if since != nil && policy.Generation == *since {
		return nil
	}
	who := o.Sender.Identity()
	if policy.DM == PolicyPairing && o.Conversation.Kind == Direct && k.Pairing != nil {
		paired, err := k.Pairing.Paired(ctx, channel, account, o.Sender.ID)
		switch {
		case err != nil:
			who.Paired = Unknown
		case paired:
			who.Paired = Yes
		default:
			who.Paired = No
		}
	}
	f.Access = policy.Access(who, MentionFacts{})
	for _, v := range Evaluate(f).Verdicts {
		if v.State == Blocked && (v.Gate == GateRoute || v.Gate == GateSender) {
			return fmt.Errorf("%s by %s", v.Reason, v.Setting)
		}
	}
	return nil
}
