package executor

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	dataplanev1 "github.com/rotation-operator/rotation-operator/api/dataplane/v1beta1"
	"github.com/rotation-operator/rotation-operator/internal/hostpattern"
)

// What infra-operator would give every node an address and a name in.
const (
	ctlplane     = "ctlplane"
	domain       = "ctlplane.example.com"
	firstAddress = "192.168.122.100"
)

// group is an inventory group as openstack-operator writes it. yaml.v3 sorts the keys of maps, numbers within them by
// value.
type group struct {
	Vars  map[string]any            `yaml:"vars"`
	Hosts map[string]map[string]any `yaml:"hosts"`
}

// inventoryOf writes the inventory of a NodeSet: one group with its name, its hosts by the first label of hostName.
// Places are those of its services, in order.
func inventoryOf(nodeSet *dataplanev1.OpenStackDataPlaneNodeSet, places []string) ([]byte, error) {
	vars, err := templateVars(nodeSet)
	if err != nil {
		return nil, err
	}
	tls := nodeSet.Spec.TLSEnabled
	maps.Copy(vars, map[string]any{
		"edpm_nodeset_name": nodeSet.Name, "edpm_tls_certs_enabled": tls == nil || *tls,
		"edpm_services": nodeSet.Spec.Services, "edpm_service_types": places,
		"ansible_ssh_private_key_file": sshKeyPath + "/ssh_key_" + nodeSet.Name,
	})
	if nodeSet.Spec.Tags != nil {
		vars["nodeset_tags"] = nodeSet.Spec.Tags
	}
	hosts, ips, names := map[string]map[string]any{}, addresses(nodeSet), hostNames(nodeSet)
	for _, key := range slices.Sorted(maps.Keys(nodeSet.Spec.Nodes)) {
		host, err := hostOf(nodeSet, key)
		if err != nil {
			return nil, err
		}
		node, full := nodeSet.Spec.Nodes[key], fullName(nodeSet, key)
		var own map[string]any
		if own, err = ansibleVars(node.Ansible, node.ManagementNetwork); err != nil {
			return nil, fmt.Errorf("node %s of NodeSet %s: %w", key, nodeSet.Name, err)
		}
		address := full
		if node.Ansible.AnsibleHost != "" {
			address = node.Ansible.AnsibleHost
		}
		hosts[host] = map[string]any{
			"ansible_host": address, "canonical_hostname": names[full][ctlplane], "ctlplane_ip": ips[full][ctlplane],
			"dns_search_domains": []string{domain},
		}
		maps.Copy(hosts[host], own)
	}
	text, err := yaml.Marshal(map[string]group{nodeSet.Name: {Vars: vars, Hosts: hosts}})
	if err != nil {
		return nil, fmt.Errorf("inventory of NodeSet %s: %w", nodeSet.Name, err)
	}
	return text, nil
}

func templateVars(nodeSet *dataplanev1.OpenStackDataPlaneNodeSet) (map[string]any, error) {
	template := nodeSet.Spec.NodeTemplate
	vars, err := ansibleVars(template.Ansible, template.ManagementNetwork)
	if err != nil {
		return nil, fmt.Errorf("nodeTemplate of NodeSet %s: %w", nodeSet.Name, err)
	}
	return vars, nil
}

func ansibleVars(opts dataplanev1.AnsibleOpts, network string) (map[string]any, error) {
	vars := map[string]any{}
	if opts.AnsibleUser != "" {
		vars["ansible_user"] = opts.AnsibleUser
	}
	if opts.AnsiblePort > 0 {
		vars["ansible_port"] = fmt.Sprint(opts.AnsiblePort)
	}
	if network != "" {
		vars["management_network"] = network
	}
	return vars, decodeVars(opts.AnsibleVars, vars)
}

// hostOf is a node's name in the inventory. It becomes a file name, so what could leave a directory is refused.
func hostOf(nodeSet *dataplanev1.OpenStackDataPlaneNodeSet, key string) (string, error) {
	host := nodeSet.InventoryHost(key)
	if host == "" || strings.ContainsAny(host, `/\`) {
		return "", fmt.Errorf("node %s of NodeSet %s has no usable host name", key, nodeSet.Name)
	}
	return host, nil
}

// fullName is the node's hostName, which a webhook of openstack-operator defaults to the node's key.
func fullName(nodeSet *dataplanev1.OpenStackDataPlaneNodeSet, key string) string {
	if name := nodeSet.Spec.Nodes[key].HostName; name != "" {
		return name
	}
	return key
}

// addresses gives status.allIPs: addresses by hostName and network.
func addresses(nodeSet *dataplanev1.OpenStackDataPlaneNodeSet) map[string]map[string]string {
	all, address := map[string]map[string]string{}, netip.MustParseAddr(firstAddress)
	for _, key := range slices.Sorted(maps.Keys(nodeSet.Spec.Nodes)) {
		all[fullName(nodeSet, key)] = map[string]string{ctlplane: address.String()}
		address = address.Next()
	}
	return all
}

// hostNames gives status.allHostnames: names by hostName and network.
func hostNames(nodeSet *dataplanev1.OpenStackDataPlaneNodeSet) map[string]map[string]string {
	all := map[string]map[string]string{}
	for key := range nodeSet.Spec.Nodes {
		full := fullName(nodeSet, key)
		name := full
		if !strings.Contains(full, ".") {
			name = full + "." + domain
		}
		all[full] = map[string]string{ctlplane: name}
	}
	return all
}

var errInventory = errors.New("the inventory is not one that openstack-operator writes")

// readInventory reads back what inventoryOf wrote, hosts in the order of the text.
func readInventory(text []byte) ([]hostpattern.Group, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil || len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errInventory // the parser's own words would quote the text
	}
	var groups []hostpattern.Group
	for name, content := range pairs(document.Content[0]) {
		one := hostpattern.Group{Name: name}
		for section, hosts := range pairs(content) {
			if section != "hosts" {
				continue
			}
			for host := range pairs(hosts) {
				one.Hosts = append(one.Hosts, host)
			}
		}
		groups = append(groups, one)
	}
	return groups, nil
}

// pairs walks over a mapping in the order of the text.
func pairs(mapping *yaml.Node) func(func(string, *yaml.Node) bool) {
	return func(yield func(string, *yaml.Node) bool) {
		if mapping.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(mapping.Content); i += 2 {
			if !yield(mapping.Content[i].Value, mapping.Content[i+1]) {
				return
			}
		}
	}
}
