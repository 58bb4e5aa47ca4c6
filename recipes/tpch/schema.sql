-- The tables of TPC-H, without their keys, which come when they are full.
create table region (r_regionkey integer, r_name text, r_comment text);
create table nation (n_nationkey integer, n_name text, n_regionkey integer, n_comment text);
create table supplier (s_suppkey integer, s_name text, s_address text, s_nationkey integer, s_phone text, s_acctbal numeric, s_comment text);
create table customer (c_custkey integer, c_name text, c_address text, c_nationkey integer, c_phone text, c_acctbal numeric, c_mktsegment text, c_comment text);
create table part (p_partkey integer, p_name text, p_mfgr text, p_brand text, p_type text, p_size integer, p_container text, p_retailprice numeric, p_comment text);
create table partsupp (ps_partkey integer, ps_suppkey integer, ps_availqty integer, ps_supplycost numeric, ps_comment text);
create table orders (o_orderkey bigint, o_custkey integer, o_orderstatus text, o_totalprice numeric, o_orderdate date, o_orderpriority text, o_clerk text, o_shippriority integer, o_comment text);
create table lineitem (l_orderkey bigint, l_partkey integer, l_suppkey integer, l_linenumber integer, l_quantity numeric, l_extendedprice numeric, l_discount numeric, l_tax numeric, l_returnflag text, l_linestatus text, l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct text, l_shipmode text, l_comment text);
