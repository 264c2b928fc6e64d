"""What a partition was promised: from when on acks are kept, what is shown stays, and replicas
agree, by its settings and by what befell the cluster; and how what was found stands to that."""
