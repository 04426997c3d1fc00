"""What every section needs: processes and their CPU time, rounds, charts, the report."""
