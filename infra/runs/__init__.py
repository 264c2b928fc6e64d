"""Starting runs that need no namespaces, ending runs, and removing what dead runs left."""
