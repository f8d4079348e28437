// Package standin has small definitions of the credentials' kinds of infra-operator and keystone-operator, for places
// where those operators are not installed.
package standin

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Definitions are those of RabbitMQUser and KeystoneApplicationCredential: names, groups and versions as the real ones
// have them, and any fields.
func Definitions() []*apiextensionsv1.CustomResourceDefinition {
	return []*apiextensionsv1.CustomResourceDefinition{
		definition("rabbitmq.openstack.org", "RabbitMQUser", "rabbitmquser", "rmquser"),
		definition("keystone.openstack.org", "KeystoneApplicationCredential", "keystoneapplicationcredential", "appcred"),
	}
}

func definition(group, kind, singular, short string) *apiextensionsv1.CustomResourceDefinition {
	anything := true
	free := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &anything}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: singular + "s." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Kind: kind, ListKind: kind + "List", Plural: singular + "s", Singular: singular, ShortNames: []string{short},
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1beta1", Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": free, "status": free},
				}},
			}},
		},
	}
}
