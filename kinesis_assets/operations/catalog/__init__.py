"""The entries of tables in the AWS Glue Data Catalog, where other engines find them."""
