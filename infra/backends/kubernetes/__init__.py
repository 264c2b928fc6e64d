"""The kubernetes backend: nodes as pods of a cluster that the kubeconfig names."""
